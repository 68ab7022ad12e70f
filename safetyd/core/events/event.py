"""The base of all events, with its two times, and conversion between clocks."""

from datetime import datetime, timedelta
from typing import ClassVar, Final, Literal

import msgspec

Level = Literal["low", "medium", "high", "critical"]  # how severe something is
LEVELS: Final[tuple[Level, ...]] = ("low", "medium", "high", "critical")


class Moment(msgspec.Struct, frozen=True, gc=False):
    at: datetime
    t: float


class Event(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False, tag_field="event"):
    """Something that happened. The engine sets `seq`; after that it does not change."""

    lasting: ClassVar[bool] = True  # it is journalled

    seq: int = 0
    at: datetime
    t: float


class Ticked(Event, kw_only=True, tag="ticked"):
    """Time passed. Actors return events and change state on those, never on the tick."""

    lasting = False


def steady(at: datetime, event: Event) -> float:
    """Convert wall time to steady time, as of an event."""
    return event.t + (at - event.at).total_seconds()


def wall(t: float, event: Event) -> datetime:
    """Convert steady time to wall time, as of an event."""
    return event.at + timedelta(seconds=t - event.t)
