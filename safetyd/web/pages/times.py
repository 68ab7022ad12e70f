"""Times as the reader of a page has them on the wall."""

from datetime import datetime, tzinfo
from typing import Final

_UNITS: Final = (("d", 86_400), ("h", 3600), ("min", 60))


def moment(at: datetime | str, zone: tzinfo, now: datetime) -> str:
    """Return a time in a zone, with its day if that is not today."""
    known = datetime.fromisoformat(at) if isinstance(at, str) else at
    there = known.astimezone(zone)
    day = "" if there.date() == now.astimezone(zone).date() else f"{there:%a %d %b} "
    return f"{day}{there:%H:%M %Z}"


def span(seconds: float) -> str:
    """Return how long something takes, in its largest unit and rounded down."""
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(int(seconds), 0)} s"


def ago(at: datetime | str, now: datetime) -> str:
    known = datetime.fromisoformat(at) if isinstance(at, str) else at
    return f"{span((now - known).total_seconds())} ago"
