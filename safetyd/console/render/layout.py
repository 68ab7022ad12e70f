"""What people read: pure functions from answers to text. Words of agents go through `plain`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from safetyd.console.terminal_text import plain
from safetyd.core.catalogue.catalogue import sentence, severity
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import Severity, seconds
from safetyd.core.text.time_words import to_the_second

View = Mapping[str, Any]


def decision(answer: Decision, kind: str, *, dry_run: bool = False) -> str:
    """Return the verdict in one line, then what it means, rules, retry time and id, indented."""
    facts: list[tuple[str, str]] = []
    if answer.triggered_rules:
        label = "rule" if len(answer.triggered_rules) == 1 else "rules"
        facts.append((label, ", ".join(map(plain, answer.triggered_rules))))
    if answer.retry_after_s is not None:
        facts.append(("retry", f"in {seconds(answer.retry_after_s)}"))
    facts.append(("id", plain(answer.id)))
    notes = [f"  {note}" for note in _notes(answer, dry_run=dry_run)]
    return "\n".join((_headline(answer, kind), *notes, *indented(facts)))


def _notes(answer: Decision, *, dry_run: bool) -> Iterator[str]:
    if dry_run:
        yield "a dry run: nothing was consumed"
    if answer.decision is not Severity.ASK:
        return
    if answer.request_id is None:
        yield "a person would be asked"
    else:
        yield f"`safetyd show {plain(answer.request_id)}` has all of it, and how to answer"


def _headline(answer: Decision, kind: str) -> str:
    if answer.decision is Severity.ALLOW:
        return f"PASSED: All safety checks passed for {plain(answer.agent)}:{plain(kind)}"
    reason = plain(answer.reason or answer.cause, 2000)
    if answer.decision is Severity.BLOCK:
        return f"BLOCKED: {reason}"
    request = f" ({plain(answer.request_id)})" if answer.request_id else ""
    return f"WAITING: needs a person{request}: {reason}"


def event(view: View) -> str:
    """Return one SafetyEvent as one line."""
    kind, facts = view["event_type"], view.get("metadata") or {}
    said = sentence(
        kind, view.get("agent_id"), view.get("breaker_id"), view.get("reason", ""), facts
    )
    times = f" ({facts['count']} times)" if facts.get("count", 1) != 1 else ""
    begins = f"{when(view['timestamp'])} {severity(kind, facts):<8} {plain(kind)}"
    return f"{begins}: {plain(said)}{times}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Line up columns; the first row is the heading, which stands in capitals."""
    rows = [[cell.upper() for cell in rows[0]], *rows[1:]]
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


def some(found: Sequence[str], most: int = 10) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return f"{', '.join(map(plain, found[:most]))}{more}"


def when(moment: object) -> str:
    """Return a time of the wire in the zone of whoever reads it: of TZ, or of this machine.

    Each has the name of its zone, because two lines of a table may differ in it.
    """
    try:
        at = moment if isinstance(moment, datetime) else datetime.fromisoformat(str(moment))
        return to_the_second(at.astimezone())
    except (ValueError, OverflowError):
        return plain(moment)


def day_end(moment: datetime) -> str:
    """Return when the day of budgets ends, which is one of UTC, on the reader's clock."""
    tomorrow = moment.astimezone(UTC) + timedelta(days=1)
    return when(tomorrow.replace(hour=0, minute=0, second=0, microsecond=0))
