"""What people read: pure functions from answers to text. Words of agents go through `plain`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from safetyd.console.heard import open_count
from safetyd.console.plain import plain
from safetyd.core.decision import Decision
from safetyd.core.verdict import Severity

View = Mapping[str, Any]

_UNITS: Final = (("d", 86400), ("h", 3600), ("min", 60))


def decision(answer: Decision, kind: str, *, dry_run: bool = False) -> str:
    """Return the verdict in one line, then what it means, rules, retry time and id, indented."""
    facts: list[tuple[str, str]] = []
    if answer.triggered_rules:
        label = "rule" if len(answer.triggered_rules) == 1 else "rules"
        facts.append((label, ", ".join(map(plain, answer.triggered_rules))))
    if answer.retry_after_s is not None:
        facts.append(("retry", f"in {answer.retry_after_s:g} s"))
    facts.append(("id", plain(answer.id)))
    notes = [f"  {note}" for note in _notes(answer, dry_run=dry_run)]
    return "\n".join((_headline(answer, kind), *notes, *indented(facts)))


def _notes(answer: Decision, *, dry_run: bool) -> Iterator[str]:
    if dry_run:
        yield "a dry run: nothing was consumed"
    if answer.decision is Severity.ASK and answer.request_id is None:
        yield "nobody can be asked yet, so it does not happen"


def _headline(answer: Decision, kind: str) -> str:
    if answer.decision is Severity.ALLOW:
        return f"PASSED: All safety checks passed for {plain(answer.agent)}:{plain(kind)}"
    reason = plain(answer.reason or answer.cause, 2000)
    if answer.decision is Severity.BLOCK:
        return f"BLOCKED: {reason}"
    request = f" ({plain(answer.request_id)})" if answer.request_id else ""
    return f"WAITING: needs a person{request}: {reason}"


def agents(rows: Sequence[View]) -> str:
    if not rows:
        return "No agent has been heard yet."
    head = ("agent", "key", "heard", "allowed", "asked", "blocked", "failed", "open", "stopped")
    return table((head, *(_agent(row) for row in rows)))


def _agent(row: View) -> tuple[str, ...]:
    counts = (row["allowed"], row["asked"], row["blocked"], row["failed"], open_count(row))
    heard = f"{duration(row['heard_s'])} ago"
    stopped = _yes(row.get("stopped"))
    return (plain(row["agent"]), _yes(row["key"]), heard, *map(str, counts), stopped)


def _yes(value: object) -> str:
    return "yes" if value else "no"


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
