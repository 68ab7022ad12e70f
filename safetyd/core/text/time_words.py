"""Durations and times in words for people.

A time is already in the reader's zone, unless a function says otherwise.
"""

from datetime import UTC, datetime
from math import floor
from typing import Final

_UNITS: Final = (("d", 86_400), ("h", 3600), ("min", 60))
_DAY_S: Final = 86_400
# Units with their seconds, and how many are shown in the next unit; `times.js` has the same.
_ROUNDED: Final = (("s", 1, 60), ("min", 60, 60), ("h", 3600, 48))
_MANY_MINUTES: Final = 120
_FAR_MINUTES: Final = 48 * 60


def duration(seconds: float) -> str:
    """Return a duration rounded to a unit, such as 3 min. Below two days, it is in hours.

    Durations that differ by seconds are in the same unit, unless they are below an hour.
    """
    for unit, size, most in _ROUNDED:
        count = floor(seconds / size + 0.5)
        if count < most:
            return f"{count} {unit}"
    return f"{floor(seconds / _DAY_S + 0.5)} d"


def complete(seconds: float) -> str:
    """Return a duration rounded down to its largest unit, such as 2 h."""
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(int(seconds), 0)} s"


def exact(seconds: float) -> str:
    """Return a duration to the second, such as 4m 56s."""
    minutes, left = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (left, "s"))
    return " ".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


def countdown(seconds: float) -> str:
    """Return the remaining time. In the last hour it is to the second, such as 12:05."""
    if seconds >= dict(_UNITS)["h"]:
        return duration(seconds)
    minutes, left = divmod(max(0, int(seconds)), 60)
    return f"{minutes}:{left:02}"


def about(seconds: float) -> str:
    """Return an approximate duration, or an empty string below 30 s and from two days on."""
    minutes = round(seconds / 60)
    if minutes <= 0 or minutes >= _FAR_MINUTES:
        return ""
    if minutes < _MANY_MINUTES:
        return "~1 minute" if minutes == 1 else f"~{minutes} minutes"
    return f"~{round(minutes / 60)} hours"


def clock(at: datetime) -> str:
    """Return the time of day: 14:05."""
    return f"{at:%H:%M}"


def day(at: datetime) -> str:
    """Return a day without its year: Mon 2 Nov."""
    return f"{at:%a} {at.day} {at:%b}"


def day_and_clock(at: datetime) -> str:
    """Return a time with its zone: Mon 2 Nov 14:05 CET."""
    return f"{day(at)} {clock(at)} {at:%Z}"


def to_the_second(at: datetime) -> str:
    """Return a time to the second: 2026-11-02 14:05:00 CET, or 2026-11-02 13:05:00Z in UTC."""
    zone = f"{at:%Z}"
    return f"{at:%Y-%m-%d %H:%M:%S}{'Z' if zone == 'UTC' else f' {zone}'}"


def in_utc(at: datetime) -> str:
    """Return a time to the second for records: 2026-11-02 13:05:00Z."""
    return to_the_second(at.astimezone(UTC))


def near(at: datetime, now: datetime) -> str:
    """Return a time, with its day if that is not today: Mon 2 Nov 14:05."""
    return clock(at) if at.date() == now.date() else f"{day(at)} {clock(at)}"
