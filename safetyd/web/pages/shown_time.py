"""Times on pages, in the reader's zone."""

from datetime import datetime, tzinfo

from safetyd.core.text.time_words import complete, near


def moment(at: datetime, zone: tzinfo, now: datetime) -> str:
    """Return a time in a zone, with its day if that is not today."""
    there = at.astimezone(zone)
    return f"{near(there, now.astimezone(zone))} {there:%Z}"


def ago(at: datetime, now: datetime) -> str:
    return f"{complete((now - at).total_seconds())} ago"
