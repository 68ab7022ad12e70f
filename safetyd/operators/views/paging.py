"""How much fits into an answer: the bus carries no message above 256 KB."""

from collections.abc import Iterable
from typing import Final

import msgspec

View = dict[str, object]

PAGE_BYTES: Final = 200 * 1024  # of rows; what else an answer says comes on top

_encode = msgspec.json.Encoder().encode


def size_of(row: View) -> int:
    return len(_encode(row))


def fitting(rows: Iterable[View], room: int = PAGE_BYTES) -> list[View]:
    """Return the first rows, as many as an answer has room for."""
    page: list[View] = []
    for row in rows:
        room -= size_of(row)
        if room < 0:
            break
        page.append(row)
    return page
