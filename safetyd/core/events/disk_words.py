"""Sentences about disk usage: how full a disk is, what uses the space, and what to do.

Do not change the words: they are in alerts, which checkpoints contain.
"""

from typing import Final

from safetyd.core.events.daemon_events import DiskUse
from safetyd.core.text.time_words import duration

MAKE_ROOM: Final = (
    "make room on it or make it larger; all but the newest file in audit/, and transcripts/, "
    "may be moved to another disk"
)
SHOWN_PARTS: Final = 3
FEW_FILES: Final = 10_000

_UNITS: Final = (("TiB", 1024**4), ("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024))


def size(count: float) -> str:
    """Format a number of bytes in its largest unit, such as 1.4 GiB."""
    for unit, bytes_ in _UNITS:
        if count >= bytes_:
            return f"{count / bytes_:.1f} {unit}"
    return f"{count:.0f} B"


def percent(use: DiskUse) -> int:
    """Return how full a disk is in percent, rounded down: 100 only if nothing is free."""
    if not use.total_bytes:
        return 0
    return 100 * (use.total_bytes - use.free_bytes) // use.total_bytes


def fullness(use: DiskUse) -> str:
    """Return a sentence such as: the disk at / is 91 % full: 4.2 GiB of 50 GiB is free."""
    free = f"{size(use.free_bytes)} of {size(use.total_bytes)} is free"
    files = use.free_files
    few = "" if files is None or files >= FEW_FILES else f" and room for {files} more files"
    return f"the disk at {use.disk} is {percent(use)} % full: {free}{few}"


def filling(use: DiskUse) -> str:
    """Return how much space safetyd uses, by its largest parts, and how fast that grows."""
    parts = sorted(use.parts.items(), key=lambda part: part[1], reverse=True)[:SHOWN_PARTS]
    shown = ", ".join(f"{name} {size(count)}" for name, count in parts)
    total = size(sum(use.parts.values()))
    own = f"safetyd has {total} there ({shown})" if use.parts else ""
    return "; ".join(filter(None, (own, _growth(use))))


def _growth(use: DiskUse) -> str:
    hourly = use.audit_bytes_per_hour
    if not hourly:
        return ""
    left = duration(3600 * use.free_bytes / hourly)
    return f"the audit files grow by {size(hourly)} an hour, enough room for {left}"
