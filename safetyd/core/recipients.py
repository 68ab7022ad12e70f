"""Recipients and their quiet hours. Quiet hours follow the wall clock, even when it changes.

Quiet hours start when the clock first shows their start or a later time, and end in the same way.
If the clock skips a time, the time counts as reached at the jump. A repeated time counts once.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Annotated, Final, Literal
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from safetyd.core.messages.proposal import Urgency

ChannelKind = Literal["desktop", "email", "sms", "webhook", "chat"]
Strategy = Literal["all", "sequential"]
BatchMode = Literal["trailing", "leading"]
Summaries = Literal["each", "review", "off"]
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]

TimeOfDay = Annotated[
    str,
    Meta(
        pattern=r"^([01]\d|2[0-3]):[0-5]\d$",
        extra_json_schema={"description": 'a time of day such as "23:00"'},
    ),
]
# Every weekday starts within this many days from yesterday on, also if the clock skips a day.
WEEK_DAYS: Final = 9

_KEPT: Final = 4096
_SECOND: Final = timedelta(seconds=1)
_DAYS: Final[tuple[Day, ...]] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
Window = tuple[datetime, datetime]


class QuietHours(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Quiet from `start` to `end` by the wall clock of a zone. If both are equal, never quiet."""

    start: TimeOfDay = "23:00"
    end: TimeOfDay = "07:00"
    days: tuple[Day, ...] = ()  # weekdays on which quiet hours start; empty: every day
    timezone: str = "UTC"


class Recipient(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person, or everyone on a shared channel."""

    name: str
    channels: tuple[str, ...]  # channels in order of preference
    quiet: QuietHours = QuietHours()
    agents: tuple[str, ...] = ("*",)  # globs of agents whose requests and alerts they get
    backup: str = ""  # the recipient to notify if this one does not answer

    def hears_of(self, agent: str | None) -> bool:
        """Return True if they get the requests and alerts of this agent (None: of all agents)."""
        return agent is None or any(fnmatchcase(agent, known) for known in self.agents)


class TellingConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Recipients, and how often they are notified. Without recipients, nobody is notified."""

    recipients: tuple[Recipient, ...] = ()
    channels: dict[str, ChannelKind] = {}  # all configured channels, in order
    strategy: Strategy = "all"
    min_urgency: Urgency = "low"
    batch_interval_s: float = 60.0
    batch_mode: BatchMode = "trailing"
    alert_batch_s: float = 600.0
    summaries: Summaries = "each"
    quiet_bypass: Literal["high", "none"] = "high"


def quiet_until(hours: QuietHours, at: datetime) -> datetime | None:
    """Return when the quiet hours that contain `at` end, in UTC. None if `at` is not quiet."""
    if hours.start == hours.end:
        return None
    release = None
    # If a clock change skips the time between two quiet periods, they join.
    while (ends := _end(hours, release or at)) is not None:
        release = ends
    return release


def quiet_from(hours: QuietHours, at: datetime) -> datetime | None:
    """Return `at` if it is quiet, else when the next quiet hours start within `WEEK_DAYS`."""
    if quiet_until(hours, at) is not None:
        return at
    if hours.start == hours.end:
        return None
    today = wall_date(hours, at)
    found = (window(hours, day) for day in range(today - 1, today + WEEK_DAYS))
    # Hours that the clock skips are empty.
    return next((each[0] for each in found if each and at < each[0] < each[1]), None)


def all_quiet(everybody: Sequence[QuietHours], at: datetime, before: datetime) -> Window | None:
    """Return the first time from `at` on at which everybody is quiet, if it starts before `before`.

    It begins at `at` if everybody is quiet already.
    """
    while everybody and at < before:
        starts = [quiet_from(hours, at) for hours in everybody]
        known = [start for start in starts if start is not None]
        if len(known) < len(starts):
            return None
        if max(known) == at:
            ends = (quiet_until(hours, at) for hours in everybody)
            return at, min(end for end in ends if end is not None)
        at = max(known)
    return None


def _end(hours: QuietHours, at: datetime) -> datetime | None:
    today = wall_date(hours, at)
    # Tomorrow's quiet hours may have started if the clock was put back over midnight.
    for day in (today - 1, today, today + 1):
        found = window(hours, day)
        if found is not None and found[0] <= at < found[1]:
            return found[1]
    return None


def wall_date(hours: QuietHours, at: datetime) -> int:
    """Return the number of the day that the wall clock of the zone shows."""
    return at.astimezone(_zone(hours.timezone)).toordinal()


@lru_cache(_KEPT)
def window(hours: QuietHours, day: int) -> Window | None:
    """Return the hours that start on a day, if any. If start and end are equal, it is a day."""
    begins_on = date.fromordinal(day)
    if hours.days and _DAYS[begins_on.weekday()] not in hours.days:
        return None
    start, end = time.fromisoformat(hours.start), time.fromisoformat(hours.end)
    ends_on = begins_on if start < end else begins_on + timedelta(days=1)
    zone = _zone(hours.timezone)
    return first_instant(begins_on, start, zone), first_instant(ends_on, end, zone)


def first_instant(day: date, shown: time, zone: ZoneInfo) -> datetime:
    """Return the first instant at which the wall clock shows the given time or later."""
    wall = datetime.combine(day, shown, zone)
    instant = wall.astimezone(UTC)
    # Aware times in the same zone compare by wall clock.
    if instant.astimezone(zone) == wall:
        return instant
    return _jump(wall.replace(fold=1).astimezone(UTC), instant, zone)


def _jump(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """Return the second between two instants at which the clock changes."""
    late = after.astimezone(zone).utcoffset()
    while (apart := (after - before) // _SECOND) > 1:
        middle = before + apart // 2 * _SECOND
        if middle.astimezone(zone).utcoffset() == late:
            after = middle
        else:
            before = middle
    return after


@cache
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)
