"""The record as a simulation reads it: causes whole, and of consequences only what is compared.

The engine makes consequences anew, so of most of them only the time is read.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Final, TypeVar, cast

import msgspec

from safetyd.core.catalogue import catalogue
from safetyd.core.catalogue.catalogue import CATALOGUE
from safetyd.core.events.event import Event

# Consequences that a simulation compares; these are read whole.
COMPARED: Final[frozenset[type[Event]]] = frozenset(
    kind for kind, entry in CATALOGUE.items() if entry.compared
)


class Consequence(msgspec.Struct, kw_only=True, gc=False, tag_field="event"):
    """Something that the engine made of something else; only its time was read."""

    at: datetime
    t: float


Heard = TypeVar("Heard", bound=Event)
Recorded = Event | Consequence


def follows(event: Recorded) -> bool:
    """Return whether an event followed from others, so that the engine makes it again."""
    return isinstance(event, Consequence) or catalogue.follows(event)


def _timed(kind: type[Event]) -> type[Consequence]:
    """Return what is read of such an event."""
    timed = msgspec.defstruct(
        kind.__name__,
        (),
        bases=(Consequence,),
        tag_field="event",
        tag=kind.__struct_config__.tag,
        kw_only=True,
        gc=False,
    )
    return cast("type[Consequence]", timed)


_READ: Final[Mapping[type[Event], type[Recorded]]] = {
    kind: _timed(kind) if entry.follows is True and not entry.compared else kind
    for kind, entry in CATALOGUE.items()
}
# What time brings about, or nearly always does.
BY_TIME: Final[frozenset[type[Recorded]]] = frozenset(
    _READ[kind] for kind, entry in CATALOGUE.items() if entry.by_time
)

# Lines are told apart by their tags, while they are read.
read_line: Callable[[bytes], Recorded] = msgspec.json.Decoder(reduce(or_, _READ.values())).decode
