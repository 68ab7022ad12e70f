"""Limits the size and duration of answers. A message on the bus has at most 256 KB."""

from collections.abc import Callable, Generator, Iterable
from typing import Final, TypeVar

import msgspec

from safetyd.core.events.event import Moment

PAGE_BYTES: Final = 200 * 1024  # size of the rows, without the rest of the answer
SLICE: Final = 50  # agents per slice, which takes about a millisecond

Item = TypeVar("Item")
Found = TypeVar("Found")
Row = TypeVar("Row", bound=msgspec.Struct)
_encode = msgspec.json.Encoder().encode


def size_of(row: msgspec.Struct) -> int:
    return len(_encode(row))


def fitting(rows: Iterable[Row], room: int = PAGE_BYTES) -> tuple[Row, ...]:
    """Return the first rows, as many as fit into an answer."""
    page: list[Row] = []
    for row in rows:
        room -= size_of(row)
        if room < 0:
            break
        page.append(row)
    return tuple(page)


def in_slices(
    items: Iterable[Item], look: Callable[[Item, Moment], Iterable[Found]], moment: Moment
) -> Generator[None, Moment, list[Found]]:
    """Return all results of `look` for these items, with a pause after each slice."""
    found: list[Found] = []
    for number, item in enumerate(items, 1):
        if number % SLICE == 0:
            moment = yield
        found += look(item, moment)
    return found
