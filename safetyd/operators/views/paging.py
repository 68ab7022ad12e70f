"""How many rows fit into an answer: the bus carries no message above 256 KB."""

from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec

PAGE_BYTES: Final = 200 * 1024  # of rows; what else an answer says comes on top
Row = TypeVar("Row", bound=msgspec.Struct)
_encode = msgspec.json.Encoder().encode


def size_of(row: msgspec.Struct) -> int:
    return len(_encode(row))


def fitting(rows: Iterable[Row], room: int = PAGE_BYTES) -> tuple[Row, ...]:
    """Return the first rows, as many as an answer has room for."""
    page: list[Row] = []
    for row in rows:
        room -= size_of(row)
        if room < 0:
            break
        page.append(row)
    return tuple(page)
