"""What people read: pure functions from answers to text. Words of agents go through `plain`."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from safetyd.console.plain import plain
from safetyd.core.decision import Decision
from safetyd.core.verdict import Severity

View = Mapping[str, Any]

_UNITS: Final = (("d", 86400), ("h", 3600), ("min", 60))


def decision(answer: Decision, kind: str) -> str:
    """Return the verdict in one line, then rules, retry time and id on indented ones."""
    facts: list[tuple[str, str]] = [("rule", plain(rule)) for rule in answer.triggered_rules]
    if answer.retry_after_s is not None:
        facts.append(("retry", f"in {answer.retry_after_s:g} s"))
    facts.append(("id", plain(answer.id)))
    return "\n".join((_headline(answer, kind), *indented(facts)))


def _headline(answer: Decision, kind: str) -> str:
    if answer.decision is Severity.ALLOW:
        return f"PASSED: All safety checks passed for {plain(answer.agent)}:{plain(kind)}"
    reason = plain(answer.reason or answer.cause, 2000)
    if answer.decision is Severity.BLOCK:
        return f"BLOCKED: {reason}"
    request = f" ({plain(answer.request_id)})" if answer.request_id else ""
    return f"WAITING: needs a person{request}: {reason}"


def status(view: View) -> str:
    decided = ", ".join(f"{count} {name}" for name, count in view["decisions"].items())
    keyless = "welcome" if view["open_agents"] else "refused"
    facts = [
        ("pid", str(view["pid"])),
        ("since", when(view["started"])),
        ("bus", f"{plain(view['bus'])}{' (embedded)' if view['embedded'] else ''}"),
        ("web", plain(view["web"])),
        ("data", plain(view["data_dir"])),
        ("mode", f"{plain(view['mode'])}, profile {plain(view['profile'])}"),
        ("agents", f"{view['agents']} known, {view['keys']} with a key; without one: {keyless}"),
        ("decided", decided),
        ("log", f"{view['seq']} events"),
    ]
    health = plain(view["problem"]) or "healthy"
    title = f"safetyd {plain(view['version'])}: {health}"
    return "\n".join((title, *indented(facts), *stops(view["stop"])))


def stops(view: View) -> list[str]:
    """Return what is stopped, by whom and why, and who has not acknowledged it."""
    if not view["active"]:
        return ["Nothing is stopped."]
    lines = [f"STOPPED: {one_stop(stop)}" for stop in view["stops"]]
    facts = [("heard it", names(view["acknowledged"])), ("silent", names(view["silent"]))]
    return [*lines, *indented(facts)]


def one_stop(stop: View) -> str:
    whom = plain(stop["agent"]) if stop["agent"] else "everything"
    reason = f": {plain(stop['reason'])}" if stop["reason"] else ""
    source = plain(stop["source"])
    return f"{whom} since {when(stop['since'])} by {plain(stop['by'])} ({source}){reason}"


def agents(rows: Sequence[View]) -> str:
    if not rows:
        return "No agent has been heard yet."
    head = ("agent", "key", "heard", "allowed", "asked", "blocked", "failed", "open")
    return table((head, *(_agent(row) for row in rows)))


def _agent(row: View) -> tuple[str, ...]:
    key = "yes" if row["key"] else "no"
    counts = (row["allowed"], row["asked"], row["blocked"], row["failed"])
    heard = f"{duration(row['heard_s'])} ago"
    return (plain(row["agent"]), key, heard, *map(str, counts), str(len(row["open_actions"])))


def event(view: View) -> str:
    """Return one SafetyEvent as one line."""
    agent = f" {plain(view['agent_id'])}" if view.get("agent_id") else ""
    facts = view.get("metadata") or {}
    rule = f" [{plain(facts['rule'])}]" if "rule" in facts else ""
    times = f" ({facts['count']} times)" if facts.get("count", 1) != 1 else ""
    reason = f": {plain(view['reason'])}" if view.get("reason") else ""
    return f"{when(view['timestamp'])} {plain(view['event_type'])}{agent}{rule}{reason}{times}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Line up columns; the first row is the heading."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lined = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lined)


def indented(facts: Iterable[tuple[str, str]]) -> list[str]:
    """Return a line each, names lined up."""
    facts = list(facts)
    width = max((len(name) for name, _ in facts), default=0)
    return [f"  {name:<{width}}  {value}" for name, value in facts]


def names(found: Sequence[str]) -> str:
    return ", ".join(map(plain, found)) or "nobody"


def when(moment: object) -> str:
    """Return a time of the wire as people read it, in UTC."""
    try:
        at = datetime.fromisoformat(str(moment))
    except ValueError:
        return plain(moment)
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


def duration(seconds: float) -> str:
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
