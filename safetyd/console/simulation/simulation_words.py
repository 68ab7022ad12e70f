"""The result of a simulation as text."""

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
_WORDS: Final = {ALLOW: "allowed", ASK: "sent for approval", BLOCK: "blocked"}
_AGENTS: Final = 5
_STATES: Final = {"pending": "not answered"}


def simulation(run: PastRun, zone: str) -> str:
    """Return the report: decisions, requests, spending and anomalies."""
    report = run.report
    parts = [
        "\n".join(_decisions(run)),
        *("\n".join(_difference(each)) for each in report.differences),
        "\n".join(_people(report, zone or "UTC")),
        "\n".join(_rest(report)),
    ]
    return "\n\n".join(filter(None, parts))


def grant(past: PastGrant) -> str:
    """Return which past requests a grant would have covered."""
    covered, whose = past.covered, f"Since {when(past.since)} the grant would have covered"
    counts = {
        "approved": covered.approved,
        "denied": covered.denied,
        "not answered": covered.unanswered,
        "blocked": covered.blocked,
    }
    if not covered.total:
        return f"{whose} no proposals of {plain(past.agent)}."
    ends = ", ".join(f"{count} {how}" for how, count in counts.items() if count)
    lines = [f"{whose} {several(covered.total, 'proposal')} of {plain(past.agent)}: {ends}."]
    if past.spent_at is not None:
        lines.append(
            f"Its {several(past.uses or 0, 'use')} would have run out at {when(past.spent_at)}."
        )
    return "\n".join((*lines, *map(_covered, past.examples)))


def _covered(example: CoveredExample) -> str:
    how = _STATES.get(example.state, example.state)
    return f"  {when(example.at)}  {how}: {plain(example.type)} {plain(example.text)}".rstrip()


def _decisions(run: PastRun) -> Iterator[str]:
    report = run.report
    if report.first_at is None or report.last_at is None:
        yield "No events were recorded in this time."
        return
    span = f"from {when(report.first_at)} to {when(report.last_at)}"
    yield f"Simulated {several(report.decisions, 'decision')} {span}."
    if not run.from_the_start:
        yield "The audit files do not go back to the first event, so the earlier state is unknown."
    if run.missing:
        yield f"Missing in the audit files: {several(run.missing, 'event')}."
    if run.damaged:
        yield f"Damaged: {several(run.damaged, 'line')}. Run `safetyd audit verify`."
    if report.unread:
        yield (
            f"{several(report.unread, 'decision')} about masked text cannot be repeated, so the "
            "recorded result is used."
        )
    differing = report.decisions - report.same
    if not differing:
        yield "All decisions would be the same."
        return
    yield f"{several(report.same, 'decision')} would be the same; {differing} would differ."
    if report.loosened:
        blocked = several(report.loosened, "action")
        yield f"WARNING: {blocked} that a rule or an operator blocked would be allowed."


def _difference(each: Difference) -> Iterator[str]:
    was = _WORDS[each.was]
    by = f" by {plain(each.rule)}" if each.rule else ""
    change = f"{was} as before, now{by}" if each.was is each.would else _change(each, by)
    ranked = sorted(each.agents.items(), key=lambda pair: -pair[1])
    agents = ", ".join(f"{plain(name)} {count}" for name, count in ranked[:_AGENTS])
    more = f", and {len(ranked) - _AGENTS} more agents" if len(ranked) > _AGENTS else ""
    yield f"{each.count} {change} ({agents}{more})"
    if each.denied:
        yield f"  an operator denied {each.denied} of these"
    if each.by_approval:
        yield (
            f"  {each.by_approval} of these would use an approval of the same action that was "
            "never used"
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
    yield f"Requests for approval: {_instead(asked)}{_hours(asked, zone)}"
    for agent, change in sorted(report.questions_of.items()):
        if change.was != change.would:
            yield f"  of {plain(agent)}: {_instead(change)}"
    if answers.alike:
        yield f"  {answers.alike} would get the answer that a similar request got at another time"
    if answers.missing:
        yield f"  {answers.missing} would have no answer: there was no similar request"
    if answers.not_taken:
        late = several(answers.not_taken, "answer")
        yield f"  {late} would be rejected: too late, or given in a way that these rules forbid"
    for recipient, messages in report.messages.items():
        yield f"Messages to {plain(recipient)}: {_instead(messages)}{_hours(messages, zone)}"


def _instead(change: Change) -> str:
    return (
        f"{change.would}, unchanged"
        if change.was == change.would
        else f"{change.would} instead of {change.was}"
    )


def _hours(change: HourlyChange, zone: str) -> str:
    """Return the hours of the day with a different count."""
    pairs = enumerate(zip(change.was_by_hour, change.would_by_hour, strict=True))
    moved = [f"{hour:02}h {would} instead of {was}" for hour, (was, would) in pairs if was != would]
    return f"\n  at {', '.join(moved)} ({plain(zone)})" if moved else ""


def _rest(report: SimulationReport) -> Iterator[str]:
    spent = report.spending
    was, would = dollars(nano(spent.was_usd)), dollars(nano(spent.would_usd))
    yield f"Spending: {would}, unchanged" if was == would else f"Spending: {would} instead of {was}"
    if spent.estimated_usd:
        estimate = dollars(nano(spent.estimated_usd))
        yield f"  plus an estimated {estimate} for actions that were not run"
    for rule, change in sorted(report.anomalies.items()):
        yield f"{plain(rule)} ({plain(change.severity)}): {_instead(change)}"
