"""Times on pages: in the reader's zone, and the exact one for who points at it."""

from datetime import datetime, tzinfo
from typing import NamedTuple

from safetyd.core.text.time_words import complete, in_utc, near


class ShownTime(NamedTuple):
    """A time in words, for a browser, and in UTC to the second."""

    said: str
    iso: str
    exact: str


def shown_time(at: datetime | str, zone: tzinfo, now: datetime) -> ShownTime:
    known = _known(at)
    return ShownTime(moment(known, zone, now), known.isoformat(), in_utc(known))


def moment(at: datetime | str, zone: tzinfo, now: datetime) -> str:
    """Return a time in a zone, with its day if that is not today."""
    there = _known(at).astimezone(zone)
    return f"{near(there, now.astimezone(zone))} {there:%Z}"


def ago(at: datetime | str, now: datetime) -> str:
    return f"{complete((now - _known(at)).total_seconds())} ago"


def _known(at: datetime | str) -> datetime:
    return datetime.fromisoformat(at) if isinstance(at, str) else at
