"""Times as people type them: 2h, 9:00, tomorrow 9:00, or RFC 3339."""

import re
from datetime import datetime, timedelta
from typing import Final

from safetyd.console.failure import WrongUsage

_UNITS: Final = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}
_is_span = re.compile(r"(\d{1,6})\s*(s|m|min|h|d)\Z").match
_is_clock = re.compile(r"(?:(today|tomorrow)\s+)?(\d{1,2}):(\d{2})\Z").match


def until(said: str, now: datetime) -> datetime:
    """Return the time that is meant, on the clocks of this machine; it must be still to come."""
    text = said.strip().lower()
    found = _after_span(text, now) or _at_clock(text, now) or _exact(said.strip())
    if found is None:
        raise WrongUsage(f"{said!r} is no time: use 2h, 30min, 'tomorrow 9:00' or RFC 3339")
    if found <= now:
        raise WrongUsage(f"{said!r} is not in the future")
    return found


def _after_span(text: str, now: datetime) -> datetime | None:
    found = _is_span(text)
    return found and now + timedelta(**{_UNITS[found[2]]: int(found[1])})


def _at_clock(text: str, now: datetime) -> datetime | None:
    """Return the next time that a clock on the wall shows this."""
    found = _is_clock(text)
    if found is None:
        return None
    day, hour, minute = found[1], int(found[2]), int(found[3])
    wall = now.astimezone().replace(tzinfo=None)
    try:
        shown = wall.replace(hour=hour, minute=minute, second=0, microsecond=0)
    except ValueError:
        return None
    if day == "tomorrow" or (day is None and shown <= wall):
        shown += timedelta(days=1)
    return shown.astimezone()  # not the offset of `now`, which may be another then


def _exact(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        return None
