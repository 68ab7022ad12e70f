"""Decodes the lines of a record for a simulation.

Causes are decoded completely. The engine computes consequences again, so only their time is
decoded, except for those that a simulation compares.
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

# Consequences that a simulation compares; they are decoded completely.
COMPARED: Final[frozenset[type[Event]]] = frozenset(
    kind for kind, entry in CATALOGUE.items() if entry.compared
)


class Consequence(msgspec.Struct, kw_only=True, gc=False, tag_field="event"):
    """An event that the engine derived from another one. Only its time is decoded."""

    at: datetime
    t: float


Heard = TypeVar("Heard", bound=Event)
Recorded = Event | Consequence


def follows(event: Recorded) -> bool:
    """Return True if an event is a consequence, which the engine computes again."""
    return isinstance(event, Consequence) or catalogue.follows(event)


def _timed(kind: type[Event]) -> type[Consequence]:
    """Return a struct that decodes only the time of this kind of event."""
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
# Events that always or nearly always result from a tick.
BY_TIME: Final[frozenset[type[Recorded]]] = frozenset(
    _READ[kind] for kind, entry in CATALOGUE.items() if entry.by_time
)

# The tag of a line selects its struct while the line is decoded.
read_line: Callable[[bytes], Recorded] = msgspec.json.Decoder(reduce(or_, _READ.values())).decode
