"""How a question on the bus becomes one to the engine, and how much fits into its answer.

The bus carries no message above 256 KB.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.journal.mailbox import Ask, Slices

PAGE_BYTES: Final = 200 * 1024  # of rows; what else an answer says comes on top
Row = TypeVar("Row", bound=msgspec.Struct)
_encode = msgspec.json.Encoder().encode
FromFields = Callable[[Mapping[str, object]], Ask]
Questions = Mapping[str, FromFields]  # by their names
Question = TypeVar("Question")


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


def asking(
    kind: type[Question], answer: Callable[[EngineState, Moment, Question], msgspec.Struct | Slices]
) -> FromFields:
    """Return what makes a question of the fields that somebody sent."""

    def asked(fields: Mapping[str, object]) -> Ask:
        question = msgspec.convert(fields, kind)
        return lambda engine, moment: answer(engine, moment, question)

    return asked


def always(answer: Ask) -> FromFields:
    """Return the same for a question that has no fields."""
    return lambda _fields: answer
