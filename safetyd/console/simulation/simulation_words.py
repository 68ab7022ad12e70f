"""What a simulation found, in words."""

from collections.abc import Callable, Iterator
from typing import Final

from safetyd.console.render.layout import when
from safetyd.console.simulation.past_grants import CoveredExample, PastGrant
from safetyd.console.simulation.past_record import PastRun
from safetyd.console.terminal_text import plain, several
from safetyd.core.messages.money import dollars, nano
from safetyd.core.messages.verdict import ALLOW, ASK, BLOCK
from safetyd.core.simulation.report import (
    Change,
    Difference,
    Example,
    HourlyChange,
    SimulationReport,
)

Progress = Callable[[float, int], None]
_WORDS: Final = {ALLOW: "allowed", ASK: "asked about", BLOCK: "blocked"}
_AGENTS: Final = 5
_STATES: Final = {"pending": "not answered"}


def simulation(run: PastRun, zone: str) -> str:
    """Return the whole account: decisions first, then people, money and anomalies."""
    report = run.report
    parts = [
        "\n".join(_decisions(run)),
        *("\n".join(_difference(each)) for each in report.differences),
        "\n".join(_people(report, zone or "UTC")),
        "\n".join(_rest(report)),
    ]
    return "\n\n".join(filter(None, parts))


def grant(past: PastGrant) -> str:
    """Return what a grant would have covered."""
    covered, whose = past.covered, f"Since {when(past.since)} it would have covered"
    counts = {
        "approved": covered.approved,
        "denied": covered.denied,
        "not answered": covered.unanswered,
        "blocked": covered.blocked,
    }
    if not covered.total:
        return f"{whose} nothing of {plain(past.agent)}."
    ends = ", ".join(f"{count} {how}" for how, count in counts.items() if count)
    lines = [f"{whose} {several(covered.total, 'proposal')} of {plain(past.agent)}: {ends}."]
    if past.spent_at is not None:
        lines.append(
            f"Its {several(past.uses or 0, 'use')} would have been gone by {when(past.spent_at)}."
        )
    return "\n".join((*lines, *map(_covered, past.examples)))


def _covered(example: CoveredExample) -> str:
    how = _STATES.get(example.state, example.state)
    return f"  {when(example.at)}  {how}: {plain(example.type)} {plain(example.text)}".rstrip()


def _decisions(run: PastRun) -> Iterator[str]:
    report = run.report
    if report.first_at is None or report.last_at is None:
        yield "Nothing is on record since then."
        return
    span = f"from {when(report.first_at)} to {when(report.last_at)}"
    yield f"{several(report.decisions, 'decision')} made again, {span}."
    if not run.from_the_start:
        yield "The files do not go back to the start: what happened before them is not known."
    if run.missing:
        yield f"{several(run.missing, 'event')} of that time are in no file here."
    if run.damaged:
        yield f"{several(run.damaged, 'line')} could not be read: see `safetyd audit verify`."
    if report.unread:
        verb = "was" if report.unread == 1 else "were"
        yield (
            f"{several(report.unread, 'text')} {verb} masked and cannot be decided again: "
            "these are taken as they were."
        )
    differing = report.decisions - report.same
    if not differing:
        yield "Every one would be the same."
        return
    yield f"{several(report.same, 'decision')} would be the same; {differing} would differ."
    if report.loosened:
        yield f"ATTENTION: {report.loosened} that a rule or a person blocked would be allowed."


def _difference(each: Difference) -> Iterator[str]:
    was = _WORDS[each.was]
    by = f" by {plain(each.rule)}" if each.rule else ""
    change = f"{was}, by other rules now:{by}" if each.was is each.would else _change(each, by)
    ranked = sorted(each.agents.items(), key=lambda pair: -pair[1])
    agents = ", ".join(f"{plain(name)} {count}" for name, count in ranked[:_AGENTS])
    more = f", {len(ranked) - _AGENTS} agents more" if len(ranked) > _AGENTS else ""
    yield f"{each.count} {change} ({agents}{more})"
    if each.denied:
        yield f"  {each.denied} of these a person had denied"
    if each.by_approval:
        yield (
            f"  {each.by_approval} of these no rule allows: "
            "an earlier approval of the same action, unused until then, covers them"
        )
    yield from map(_example, each.examples)


def _change(each: Difference, by: str) -> str:
    looser = each.would.rank < each.was.rank
    was, would = _WORDS[each.was], _WORDS[each.would]
    return f"{was}{by}, would be {would}" if looser else f"{was}, would be {would}{by}"


def _example(example: Example) -> str:
    said = f"{plain(example.agent)}: {plain(example.type)} {plain(example.text)}".rstrip()
    return f"  {when(example.at)}  {said}  [{plain(example.id)}]"


def _people(report: SimulationReport, zone: str) -> Iterator[str]:
    asked, answers = report.questions, report.answers
    yield f"Questions: {_instead(asked)}{_hours(asked, zone)}"
    for agent, change in sorted(report.questions_of.items()):
        if change.was != change.would:
            yield f"  of {plain(agent)}: {_instead(change)}"
    if answers.alike:
        yield f"  {answers.alike} answered as the same action or shape was at another time"
    if answers.missing:
        yield f"  {answers.missing} without an answer: nobody was ever asked about such a thing"
    if answers.not_taken:
        late = several(answers.not_taken, "answer")
        yield f"  {late} not taken: too late, or in a way that these rules do not take"
    for recipient, messages in report.messages.items():
        yield f"Messages to {plain(recipient)}: {_instead(messages)}{_hours(messages, zone)}"


def _instead(change: Change) -> str:
    return (
        f"{change.would}, as it was"
        if change.was == change.would
        else f"{change.would} instead of {change.was}"
    )


def _hours(change: HourlyChange, zone: str) -> str:
    """Name the hours of the day that would differ."""
    pairs = enumerate(zip(change.was_by_hour, change.would_by_hour, strict=True))
    moved = [f"{hour:02}h {would} instead of {was}" for hour, (was, would) in pairs if was != would]
    return f"\n  at {', '.join(moved)} ({plain(zone)})" if moved else ""


def _rest(report: SimulationReport) -> Iterator[str]:
    spent = report.spending
    was, would = dollars(nano(spent.was_usd)), dollars(nano(spent.would_usd))
    yield f"Spent: {would}, as it was" if was == would else f"Spent: {would} instead of {was}"
    if spent.estimated_usd:
        estimate = dollars(nano(spent.estimated_usd))
        yield f"  and {estimate} by estimate, for what was not done then"
    for rule, change in sorted(report.anomalies.items()):
        yield f"{plain(rule)} ({plain(change.severity)}): {_instead(change)}"
