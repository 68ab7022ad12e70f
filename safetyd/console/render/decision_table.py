"""Decisions, and the events between them, as text. Text from agents is escaped by `plain`."""

from collections.abc import Iterator, Sequence
from typing import Final

from safetyd.console.render.layout import aligned, because, indented, names, when
from safetyd.console.terminal_text import columns, plain
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import Severity, seconds
from safetyd.operators.contract.decision_contract import DecisionRow, EventRow, Row

NONE: Final = "No matching decisions."
WHY: Final = "`safetyd explain ID` shows why, and what would make the action allowed."
LEAST_CHARS: Final = 24  # the minimum width of the column "action"

_SAID: Final = {"allow": "allowed", "require_confirmation": "asked", "block": "blocked"}
VERDICTS: Final = {said: verdict for verdict, said in _SAID.items()}  # for --verdict
_HEADING: Final = ("time", "agent", "verdict", "action", "rule", "id")
_AGENT: Final = 12
_VERDICT: Final = 8


def decision(answer: Decision, kind: str, *, dry_run: bool = False) -> str:
    """Return the verdict in one line, then notes, rules, retry time and id, indented."""
    facts: list[tuple[str, str]] = []
    if answer.triggered_rules:
        label = "rule" if len(answer.triggered_rules) == 1 else "rules"
        facts.append((label, names(answer.triggered_rules)))
    if answer.retry_after_s is not None:
        facts.append(("retry", f"in {seconds(answer.retry_after_s)}"))
    facts.append(("id", plain(answer.id)))
    notes = [f"  {note}" for note in _notes(answer, dry_run=dry_run)]
    return "\n".join((_headline(answer, kind), *notes, *indented(facts)))


def _notes(answer: Decision, *, dry_run: bool) -> Iterator[str]:
    if dry_run:
        yield "dry run: no budget or limit was used"
    if answer.decision is not Severity.ASK:
        return
    if answer.request_id is None:
        yield "the action would need approval"
    else:
        yield f"`safetyd show {plain(answer.request_id)}` shows the request and how to answer it"


def _headline(answer: Decision, kind: str) -> str:
    if answer.decision is Severity.ALLOW:
        return f"PASSED: All safety checks passed for {plain(answer.agent)}:{plain(kind)}"
    reason = plain(answer.reason or answer.cause, 2000)
    if answer.decision is Severity.BLOCK:
        return f"BLOCKED: {reason}"
    request = f" ({plain(answer.request_id)})" if answer.request_id else ""
    return f"WAITING: needs approval{request}: {reason}"


def decisions(rows: Sequence[Row], *, more: bool = False) -> str:
    """Return a table of decisions and events, and how to see more."""
    if not rows:
        return NONE
    width = columns()
    cells = [_cells(row) for row in rows]
    others = sum(max(len(cell[n]) for cell in (_HEADING, *cells)) + 2 for n in (0, 1, 2, 4, 5))
    chars = max(LEAST_CHARS, width - others)
    heading, *lines = aligned(
        [_HEADING, *((*c[:3], _cut(c[3], chars), *c[4:]) for c in cells)]
    ).splitlines()
    begin = heading.index(_HEADING[3].upper())
    for place, cell in enumerate(cells):
        if not cell[5]:  # an event has no rule and no id, so its text can be longer
            lines[place] = _cut(f"{lines[place][:begin]}{cell[3]}", max(width, begin + chars))
    notes = ("To see older ones, use --limit.", WHY) if more else (WHY,)
    return "\n".join((heading, *lines, "", *notes))


def decision_line(row: Row) -> str:
    """Return one decision or event in a line."""
    time, agent, verdict, action, rule, id_ = _cells(row)
    by = f" [{rule}]" if rule else ""
    named = f" {id_}" if id_ else ""
    return f"{time} {agent:<{_AGENT}} {verdict:<{_VERDICT}} {action}{by}{named}"


def _cells(row: Row) -> tuple[str, ...]:
    if isinstance(row, EventRow):
        return when(row.at), plain(row.agent or "-"), "-", _happened(row), "", ""
    again = " (dry run)" if row.dry_run else "" if row.first else " again"
    return (
        when(row.at),
        plain(row.agent),
        f"{_SAID[row.decision]}{again}",
        _action(row),
        plain(row.rule),
        plain(row.id),
    )


def _happened(row: EventRow) -> str:
    message, by = row.message, row.by or ""
    who = f" by {plain(by)}" if by and by not in message else ""
    rule = f" [{plain(row.rule)}]" if row.rule and row.rule not in message else ""
    return f"{plain(row.type)}{who}{rule}{because(message, 200)}"


def _action(row: DecisionRow) -> str:
    where = plain(row.place, 200)
    text = "" if row.text == row.path else plain(row.text, 200)
    said = f"{text}{'…' if row.cut else ''}" if text else ""
    return ": ".join(filter(None, (plain(row.type), where, said)))


def _cut(said: str, chars: int) -> str:
    return said if len(said) <= chars else f"{said[: chars - 1]}…"
