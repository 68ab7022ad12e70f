"""Parses times that users type: 2h, 9:00, tomorrow 9:00, yesterday, or RFC 3339.

A day without a time means 0:00. A time without a zone is local time: that of TZ, or of this
machine.
"""

import re
from datetime import datetime, timedelta
from typing import Final

from safetyd.console.failure import WrongUsage

_UNITS: Final = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}
_DAYS: Final = {"yesterday": -1, "today": 0, "tomorrow": 1}
_is_span = re.compile(r"(\d{1,6})\s*(s|m|min|h|d)\Z").match
_is_clock = re.compile(r"(?:(yesterday|today|tomorrow)\s+)?(\d{1,2}):(\d{2})\Z").match
_DAY_BEGINS: Final = "0:00"


def until(said: str, now: datetime) -> datetime:
    """Return a time in the future. `2h` is two hours after `now`, `9:00` is the next 9:00."""
    found = _meant(said, now, 1)
    if found is None:
        raise WrongUsage(f"{said!r} is not a time. Use 2h, 30min, 'tomorrow 9:00' or RFC 3339")
    if found <= now:
        raise WrongUsage(f"{said!r} is not in the future")
    return found


def since(said: str, now: datetime) -> datetime:
    """Return a time in the past. `2h` is two hours before `now`, `9:00` is the last 9:00."""
    found = _meant(said, now, -1)
    if found is None:
        raise WrongUsage(f"{said!r} is not a time. Use 2h, 30min, 'yesterday 9:00' or RFC 3339")
    if found > now:
        raise WrongUsage(f"{said!r} is not in the past")
    return found


def _meant(said: str, now: datetime, direction: int) -> datetime | None:
    text = said.strip().lower()
    return (
        _after_span(text, now, direction) or _at_clock(text, now, direction) or _exact(said.strip())
    )


def _after_span(text: str, now: datetime, direction: int) -> datetime | None:
    found = _is_span(text)
    return found and now + direction * timedelta(**{_UNITS[found[2]]: int(found[1])})


def _at_clock(text: str, now: datetime, direction: int) -> datetime | None:
    """Return the next or last time of day, such as 9:00, depending on `direction`."""
    found = _is_clock(f"{text} {_DAY_BEGINS}" if text in _DAYS else text)
    if found is None:
        return None
    day, hour, minute = found[1], int(found[2]), int(found[3])
    wall = now.astimezone().replace(tzinfo=None)
    try:
        shown = wall.replace(hour=hour, minute=minute, second=0, microsecond=0)
    except ValueError:
        return None
    if day is not None:
        shown += timedelta(days=_DAYS[day])
    elif direction * (shown - wall) <= timedelta():
        shown += timedelta(days=direction)
    return shown.astimezone()  # with the UTC offset at that time, which may differ from now


def _exact(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        return None
