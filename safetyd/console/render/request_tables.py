"""Requests as people read them in lists. Words of agents go through `plain`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from safetyd.cards.request_details import RequestEnded, RequestRow
from safetyd.console.render.layout import table, when
from safetyd.console.terminal_text import plain, several
from safetyd.core.text.time_words import duration

UNTOLD: Final = (
    "Nobody is told of requests: no channel is configured (see `safetyd docs notifications`)."
)
WHAT_CHARS: Final = 60

_URGENCIES: Final = ("high", "normal", "low")


def telling(channels: Sequence[str], down: Sequence[str] = (), failing: Sequence[str] = ()) -> str:
    """Say how people are told of what waits."""
    if not channels:
        return UNTOLD
    marks = dict.fromkeys(failing, " (failing)") | dict.fromkeys(down, " (DOWN)")
    return f"People are told by {', '.join(plain(c) + marks.get(c, '') for c in channels)}."


def queue(rows: Sequence[RequestRow], channels: Sequence[str], *, all_: bool = False) -> str:
    """Return open requests, the most urgent first and of equals the oldest."""
    if not rows:
        return "Nothing waits for a person."
    groups = [[row] for row in rows] if all_ else list(_groups(rows))
    groups.sort(key=lambda group: min(_URGENCIES.index(row.urgency) for row in group))
    heading = ("id", "urgency", "left", "agent", "what")
    shown = table([heading, *(_line(group) for group in groups)])
    notes = [f"{several(len(rows), 'request')}; `safetyd show ID` has one in full."]
    notes.append(telling(channels))
    if len(groups) < len(rows):
        notes.append("Types that nobody knows stand together; --all has a line for each.")
    return "\n".join((shown, "", *notes))


def _groups(rows: Sequence[RequestRow]) -> Iterable[list[RequestRow]]:
    """Put together what one agent asks of one type that is not known."""
    groups: dict[tuple[str, ...], list[RequestRow]] = {}
    for row in rows:
        key = (row.agent, row.type) if row.unknown else (row.id,)
        groups.setdefault(key, []).append(row)
    return groups.values()


def _line(group: Sequence[RequestRow]) -> tuple[str, ...]:
    """Return the line of a request, or of several by their first and the earliest end."""
    first = group[0]
    more = f" +{len(group) - 1}" if len(group) > 1 else ""
    urgency = min((row.urgency for row in group), key=_URGENCIES.index)
    ends = [row.left_s for row in group if row.left_s is not None]
    return (
        f"{plain(first.id)}{more}",
        plain(urgency),
        duration(max(min(ends), 0.0)) if ends else "no end",
        plain(first.agent),
        f"{what(first)}{_notes(first)}",
    )


def what(row: RequestRow | RequestEnded) -> str:
    """Return the type of an action and, in the agent's words, where it is and what."""
    said = row.words if isinstance(row, RequestRow) else row.text
    where = f" {plain(row.place, WHAT_CHARS)}" if row.path else ""
    quoted = f' "{plain(said, WHAT_CHARS)}"' if said else ""
    return f"{plain(row.type if isinstance(row, RequestRow) else row.action)}{where}{quoted}"


def _notes(row: RequestRow) -> str:
    notes = (
        "type not known" if row.unknown else "",
        f"{several(row.repeats, 'repeat')}" if row.repeats else "",
        f"put off until {when(row.until)}" if row.until else "",
    )
    said = ", ".join(note for note in notes if note)
    return f" ({said})" if said else ""


def history(rows: Sequence[RequestEnded]) -> str:
    """Return how requests ended."""
    if not rows:
        return "No request has ended yet."
    heading = ("id", "ended", "how", "by", "via", "took", "agent", "what")
    return table([heading, *map(_past, rows)])


def _past(row: RequestEnded) -> tuple[str, ...]:
    words = f": {plain(row.words)}" if row.words else ""
    return (
        plain(row.request_id),
        when(row.decided_at),
        plain(row.decision),
        plain(row.decided_by),
        plain(row.decided_via),
        duration(row.response_time_seconds or 0.0),
        plain(row.agent),
        f"{what(row)}{words}",
    )


def before(rows: Sequence[RequestEnded]) -> Iterator[str]:
    """Yield a sentence for each earlier answer to the same kind of request."""
    for row in rows:
        words = f": {plain(row.words)}" if row.words else ""
        by = f"by {plain(row.decided_by)} via {plain(row.decided_via)}"
        took = duration(row.response_time_seconds or 0.0)
        yield f"{when(row.decided_at)} {plain(row.decision)} {by} after {took}{words}"
