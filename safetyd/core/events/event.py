"""An event and its two times, and from one clock to the other."""

from datetime import datetime, timedelta
from typing import ClassVar, Final, Literal

import msgspec

Level = Literal["low", "medium", "high", "critical"]  # how severe something is
LEVELS: Final[tuple[Level, ...]] = ("low", "medium", "high", "critical")


class Moment(msgspec.Struct, frozen=True, gc=False):
    at: datetime
    t: float


class Event(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False, tag_field="event"):
    """Something that happened. The engine gives it its `seq`; nobody changes it after that."""

    lasting: ClassVar[bool] = True  # it is written down

    seq: int = 0
    at: datetime
    t: float


class Ticked(Event, kw_only=True, tag="ticked"):
    """Time passed. Actors answer with events and change on those, never on the tick."""

    lasting = False


def steady(at: datetime, event: Event) -> float:
    """Return the steady second at which the wall clock, left alone, shows `at`."""
    return event.t + (at - event.at).total_seconds()


def wall(t: float, event: Event) -> datetime:
    """Return what the wall clock, left alone, shows at the steady second `t`."""
    return event.at + timedelta(seconds=t - event.t)
