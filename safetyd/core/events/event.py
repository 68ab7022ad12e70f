"""The base class of all events, and conversion between wall time and steady time."""

from datetime import datetime, timedelta
from typing import ClassVar, Final, Literal

import msgspec

Level = Literal["low", "medium", "high", "critical"]  # severities
LEVELS: Final[tuple[Level, ...]] = ("low", "medium", "high", "critical")


class Moment(msgspec.Struct, frozen=True, gc=False):
    at: datetime
    t: float


class Event(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False, tag_field="event"):
    """Something that happened. An event never changes after the engine has set `seq`."""

    lasting: ClassVar[bool] = True  # True: the event is journalled

    seq: int = 0
    at: datetime
    t: float


class Ticked(Event, kw_only=True, tag="ticked"):
    """Time has passed. Actors respond with events, and only those change their state."""

    lasting = False


def steady(at: datetime, event: Event) -> float:
    """Convert wall time to steady time, as of an event."""
    return event.t + (at - event.at).total_seconds()


def wall(t: float, event: Event) -> datetime:
    """Convert steady time to wall time, as of an event."""
    return event.at + timedelta(seconds=t - event.t)
