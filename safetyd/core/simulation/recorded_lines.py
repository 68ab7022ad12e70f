"""The record as a simulation reads it: causes whole, and of consequences only what is compared.

The engine makes consequences anew, so of most of them only the time is read.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Final, TypeVar, cast, get_args

import msgspec

from safetyd.core.engine.journal_lines import AnyEvent
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.decision_events import Overdue, SessionClosed, Settled, Transcribed
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import (
    AnomalyFound,
    BreakerMoved,
    BudgetMarked,
    Paused,
    PersonSeen,
    SafeModeEntered,
    Stopped,
    Unpaused,
)
from safetyd.core.events.history_events import CommitDue, RollbackOffered
from safetyd.core.events.notification_events import Climbed, Due
from safetyd.core.events.request_events import (
    Cancelled,
    EscalationDenied,
    Expired,
    GrantEnded,
    GrantUsed,
    Lapsed,
    Released,
    Superseded,
)

OWN: Final = "safetyd"  # who does what no person did

# What only the engine makes, and a simulation compares.
COMPARED: Final[frozenset[type[Event]]] = frozenset({Settled, AnomalyFound, Due, Superseded})
# What only the engine makes, and nobody compares: of these the time is read.
PASSED_OVER: Final[frozenset[type[Event]]] = frozenset(
    {
        *(Overdue, SessionClosed, Transcribed, BreakerMoved, BudgetMarked),
        *(CommitDue, RollbackOffered),
        *(Expired, Lapsed, Released, EscalationDenied, GrantUsed, GrantEnded),
        *(Climbed, SafetyEvent),
    }
)


class Consequence(msgspec.Struct, kw_only=True, gc=False, tag_field="event"):
    """Something that the engine made of something else; only its time was read."""

    at: datetime
    t: float


Heard = TypeVar("Heard", bound=Event)
Recorded = Event | Consequence
Judge = Callable[[Recorded], bool]


def follows(event: Recorded) -> bool:
    """Say whether an event followed from others, so that the engine makes it anew."""
    kind = type(event)
    if kind in _ALWAYS:
        return True
    judge = _SOMETIMES.get(kind)
    return judge is not None and judge(event)


def _if(kind: type[Heard], judge: Callable[[Heard], bool]) -> tuple[type[Recorded], Judge]:
    return kind, cast("Judge", judge)


_SOMETIMES: Final[Mapping[type[Recorded], Judge]] = dict(
    (
        _if(Stopped, lambda event: event.source == "anomaly"),
        _if(Paused, lambda event: event.source != "operator"),
        _if(Unpaused, lambda event: event.approved),
        _if(SafeModeEntered, lambda event: event.by == OWN),
        _if(PersonSeen, lambda event: event.by == OWN),
        _if(Cancelled, lambda event: event.via == "unpause"),
    )
)


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


_TIMED: Final[Mapping[type[Event], type[Consequence]]] = {
    kind: _timed(kind) for kind in get_args(AnyEvent) if kind in PASSED_OVER
}
# What time brings about, or nearly always does.
_DUE: Final = (Expired, Lapsed, GrantEnded, Climbed, Overdue, SessionClosed, Transcribed)
BY_TIME: Final[frozenset[type[Recorded]]] = frozenset(
    {Due, PersonSeen, *(_TIMED[kind] for kind in _DUE)}
)
_ALWAYS: Final[frozenset[type[Recorded]]] = COMPARED | frozenset(_TIMED.values())

# Lines are told apart by their tags, while they are read.
read_line: Callable[[bytes], Recorded] = msgspec.json.Decoder(
    reduce(or_, (_TIMED.get(kind, kind) for kind in get_args(AnyEvent)))
).decode
