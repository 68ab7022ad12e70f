"""Short lines for the entries of a message that has no room for their cards.

Each line has a link and says how many requests it stands for. If there are too many lines, those of
one agent are joined.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from safetyd.cards.note_cards import Line, SingleCard, titled
from safetyd.cards.request_card import TEXT, RequestCard
from safetyd.cards.set_card import place, several
from safetyd.core.events.notification_events import ItemKind

MAX_LINES: Final = 30
TEXT_CHARS: Final = 60


def line_of(card: SingleCard) -> Line:
    """Return a card as a line."""
    if not isinstance(card, RequestCard):
        kind = card.kind
        return Line(kind=kind, title=titled(card), agent=card.agent, type=kind, refs=card.refs)
    line = Line(
        kind=card.kind,
        title=f"{card.type} by {card.agent}{place(card.project)}",
        agent=card.agent,
        type=card.type,
        refs=card.refs,
        link=card.link,
    )
    what = card.find(TEXT) or card.find("paths") or card.find("target")
    return request_line(line, what)


def request_line(line: Line, text: str) -> Line:
    """Return a line with the number of its requests and the beginning of an exact text."""
    said = " ".join(text.split())
    short = said if len(said) <= TEXT_CHARS else f"{said[: TEXT_CHARS - 1]}…"
    title = f"{several(line.size)}{line.title}" + (f': "{short}"' if short else "")
    kind: ItemKind = "expired" if line.kind == "expired" else "request"
    return msgspec.structs.replace(line, kind=kind, title=title)


def merged(lines: Sequence[Line], link: str, most: int = MAX_LINES) -> tuple[Line, ...]:
    """Return at most `most` lines. A joined line has the `link` to the list of the message."""
    found = tuple(lines)
    for key in (_type, _agent, _all):
        if len(found) > most:
            found = tuple(_joined(same, link) for same in _same(lines, key))
    return found


def _type(line: Line) -> tuple[str, ...]:
    return line.kind, line.agent, line.type


def _agent(line: Line) -> tuple[str, ...]:
    return line.kind, line.agent


def _all(line: Line) -> tuple[str, ...]:
    return (line.kind,)


def _same(lines: Iterable[Line], key: Callable[[Line], tuple[str, ...]]) -> Iterable[list[Line]]:
    found: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        found.setdefault(key(line), []).append(line)
    return found.values()


def _joined(lines: Sequence[Line], link: str) -> Line:
    if len(lines) == 1:
        return lines[0]
    refs = tuple(ref for line in lines for ref in line.refs)
    by = _named([line.agent for line in lines], "agents")
    what = _named([line.type for line in lines], "types")
    return Line(
        kind=lines[0].kind,
        title=f"{several(len(refs))}{what} by {by}",
        agent=by,
        type=what,
        refs=refs,
        link=link,
    )


def _named(names: Iterable[str], many: str) -> str:
    found = dict.fromkeys(names)
    return next(iter(found)) if len(found) == 1 else f"{len(found):,} {many}"
