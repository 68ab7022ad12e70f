"""How a question on the bus becomes one to the engine."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Moment
from safetyd.journal.letters import Ask, Slices
from safetyd.operators.views.paging import View

FromFields = Callable[[Mapping[str, object]], Ask]
Questions = Mapping[str, FromFields]  # by their names
Question = TypeVar("Question")


def asking(
    kind: type[Question], answer: Callable[[Engine, Moment, Question], View | Slices]
) -> FromFields:
    """Return what makes a question of the fields that somebody sent."""

    def asked(fields: Mapping[str, object]) -> Ask:
        question = msgspec.convert(fields, kind)
        return lambda engine, moment: answer(engine, moment, question)

    return asked


def always(answer: Ask) -> FromFields:
    """Return the same for a question that has no fields."""
    return lambda _fields: answer
