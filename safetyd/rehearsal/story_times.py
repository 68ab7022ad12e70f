"""Times in a story: durations, times of day with or without a weekday, and spans of them."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, NamedTuple
from zoneinfo import ZoneInfo

from msgspec import Meta

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_TIME: Final = r"([A-Z][a-z]{2} )?([01]\d|2[0-3]):[0-5]\d"
_DAY: Final = timedelta(days=1)


def _text(pattern: str, description: str) -> Meta:
    return Meta(pattern=pattern, extra_json_schema={"description": description})


Duration = Annotated[
    str, _text(r"^(\d+(\.\d+)?[smhd])+$", 'a duration such as "90s", "7m" or "1h30m"')
]
TimeInStory = Annotated[str, _text(rf"^{_TIME}$", 'a time such as "09:30" or "Tue 02:00"')]
Span = Annotated[
    str,
    _text(rf"^{_TIME}-{_TIME}$", 'a span such as "09:00-18:00" or "Mon 18:00-Tue 02:00"'),
]
Start = Annotated[
    str, _text(r"^\d{4}-\d\d-\d\d \d\d:\d\d$", 'a date and time such as "2026-03-02 06:00"')
]


def seconds(duration: str) -> float:
    """Return a duration in seconds."""
    found = re.findall(r"([\d.]+)([smhd])", duration)
    return float(sum(float(number) * _UNITS[unit] for number, unit in found))


def wrong_day(time: str) -> str:
    """Return the weekday in a time or span that does not exist, or an empty string."""
    days = re.findall(r"[A-Z][a-z]{2}", time)
    return next((day for day in days if day.lower() not in _DAYS), "")


class Window(NamedTuple):
    """A time from `begins` until before `ends`."""

    begins: datetime
    ends: datetime

    def __contains__(self, at: object) -> bool:
        return isinstance(at, datetime) and self.begins <= at < self.ends


class StoryTimes:
    """Converts times of a story, which are in its time zone, to moments in UTC."""

    def __init__(self, start: str, lasts: str, zone: str) -> None:
        self._local = datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(zone))
        self.start = self._local.astimezone(UTC)
        self.end = self.start + timedelta(seconds=seconds(lasts))

    def local(self, at: datetime) -> datetime:
        """Return a moment in the story's time zone."""
        return at.astimezone(self._local.tzinfo)

    def at(self, time: str) -> datetime:
        """Return the first such moment since the start of the story."""
        return _first(time, self._local).astimezone(UTC)

    def window(self, time: str, lasts: str) -> Window:
        """Return the window that begins at a time."""
        begins = self.at(time)
        return Window(begins, begins + timedelta(seconds=seconds(lasts)))

    def windows(self, spans: Iterable[str]) -> list[Window]:
        """Return every occurrence of these spans, also of those that began before the story."""
        return [window for span in spans for window in self._occurrences(span)]

    def _occurrences(self, span: str) -> Iterator[Window]:
        start, end = span.split("-")
        days = 7 if " " in start else 1
        begins = _first(start, self._local - days * _DAY)
        while begins.astimezone(UTC) < self.end:
            ends = _first(end, begins + timedelta(minutes=1))
            yield Window(begins.astimezone(UTC), ends.astimezone(UTC))
            begins += days * _DAY


def _first(time: str, since: datetime) -> datetime:
    """Return the first such time of the wall clock."""
    day, _, clock = time.rpartition(" ")
    hour, minute = map(int, clock.split(":"))
    at = since.replace(hour=hour, minute=minute, second=0)
    while at < since or (day and _DAYS[at.weekday()] != day.lower()):
        at += _DAY
    return at


def inside(windows: list[Window], at: datetime) -> Window | None:
    """Return the window that contains a moment, or None."""
    return next((window for window in windows if at in window), None)
