"""Tables of pending and answered requests. Text from agents is escaped by `plain`."""

from collections.abc import Iterable, Sequence
from typing import Final

from safetyd.cards.request_details import ROW_CHARS, RequestEnded, RequestRow
from safetyd.console.render.layout import Columns, because, table, when
from safetyd.console.terminal_text import plain, several
from safetyd.core.text.time_words import duration
from safetyd.core.text.visible_text import visible
from safetyd.operators.contract.status_contract import Unsent

NOBODY: Final = "Nobody is notified: no channel is configured (see `safetyd docs notifications`)."
WHAT_CHARS: Final = 60

Group = Sequence[RequestRow]  # one request, or all of one agent for the same unknown type

_URGENCIES: Final = ("high", "normal", "low")


def notified_by(
    channels: Sequence[str], down: Sequence[str] = (), failing: Sequence[str] = ()
) -> str:
    """Return how operators are notified of requests."""
    if not channels:
        return NOBODY
    marks = dict.fromkeys(failing, " (failing)") | dict.fromkeys(down, " (DOWN)")
    return f"Operators are notified by {', '.join(plain(c) + marks.get(c, '') for c in channels)}."


def not_sent(unsent: Unsent | None) -> str:
    """Return how many requests were not sent to anyone yet, and how many expire unsent."""
    if unsent is None:
        return ""
    have = "has" if unsent.requests == 1 else "have"
    sent = f"{have} not been sent to anyone yet"
    if unsent.until is not None:
        sent = f"will not be sent to anyone until {when(unsent.until)}"
    urgent = f", {unsent.urgent} of them urgent" if unsent.urgent else ""
    expire = "expires" if unsent.expiring == 1 else "expire"
    lost = f"; {unsent.expiring} {expire} before then" if unsent.expiring else ""
    return f"{several(unsent.requests, 'request')} {sent}{urgent}{lost}."


def queue(
    rows: Sequence[RequestRow],
    channels: Sequence[str],
    down: Sequence[str] = (),
    unsent: Unsent | None = None,
    *,
    all_: bool = False,
) -> str:
    """Return a table of pending requests, sorted by urgency and age."""
    if not rows:
        return "No pending requests."
    groups: list[Group] = [[row] for row in rows] if all_ else list(_groups(rows))
    groups.sort(key=_urgency)
    notes = [f"{several(len(rows), 'request')}. `safetyd show ID` shows one in full."]
    notes.append(f"{notified_by(channels, down)} {not_sent(unsent)}".rstrip())
    if len(groups) < len(rows):
        notes.append("Requests for an unknown type are grouped by agent. --all lists each.")
    return "\n".join((table(groups, _QUEUE), "", *notes))


def _groups(rows: Sequence[RequestRow]) -> Iterable[Group]:
    """Group requests of the same agent for the same unknown type."""
    groups: dict[tuple[str, ...], list[RequestRow]] = {}
    for row in rows:
        key = (row.agent, row.type) if row.unknown else (row.id,)
        groups.setdefault(key, []).append(row)
    return groups.values()


def _urgency(group: Group) -> int:
    return min(_URGENCIES.index(row.urgency) for row in group)


def _left(group: Group) -> str:
    """Return the time until the earliest deadline of a group."""
    ends = [row.left_s for row in group if row.left_s is not None]
    return duration(max(min(ends), 0.0)) if ends else "no deadline"


def what(row: RequestRow | RequestEnded) -> str:
    """Return the type of an action, its path and its text."""
    said = row.words if isinstance(row, RequestRow) else row.text
    where = f" {plain(row.place, WHAT_CHARS)}" if row.path else ""
    quoted = f' "{_shortened(said)}"' if said else ""
    return f"{plain(row.type if isinstance(row, RequestRow) else row.action)}{where}{quoted}"


def _shortened(said: str) -> str:
    """Return the start of an agent's text, which may already be cut to `ROW_CHARS`."""
    if len(said) < ROW_CHARS:
        return plain(said, WHAT_CHARS)
    return f"{visible(said)[:WHAT_CHARS]}… (at least {ROW_CHARS} characters)"


def _notes(row: RequestRow) -> str:
    notes = (
        "unknown type" if row.unknown else "",
        f"{several(row.repeats, 'repeat')}" if row.repeats else "",
        f"deferred until {when(row.until)}" if row.until else "",
    )
    said = ", ".join(note for note in notes if note)
    return f" ({said})" if said else ""


_QUEUE: Final[Columns[Group]] = {
    "id": lambda group: f"{group[0].id} +{len(group) - 1}" if group[1:] else group[0].id,
    "urgency": lambda group: _URGENCIES[_urgency(group)],
    "left": _left,
    "agent": lambda group: group[0].agent,
    "action": lambda group: f"{what(group[0])}{_notes(group[0])}",
}
_ENDED: Final[Columns[RequestEnded]] = {
    "id": lambda row: row.request_id,
    "answered": lambda row: row.decided_at,
    "result": lambda row: row.decision,
    "by": lambda row: row.decided_by,
    "via": lambda row: row.decided_via,
    "took": lambda row: duration(row.response_time_seconds or 0.0),
    "agent": lambda row: row.agent,
    "action": lambda row: f"{what(row)}{because(row.words)}",
}


def history(rows: Sequence[RequestEnded]) -> str:
    """Return a table of answered, expired and cancelled requests."""
    return table(rows, _ENDED) if rows else "No request has been answered yet."
