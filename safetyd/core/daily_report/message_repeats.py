"""How messages are measured: repeats, and the largest number within a time."""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

HOUR: Final = timedelta(hours=1)
REPEATED: Final = 4 * HOUR  # the same thing to the same person within this time is a repeat
REPEATED_URGENT: Final = timedelta(minutes=5)


def is_repeat(since: timedelta | None, *, urgent: bool) -> bool:
    """Return True if a person reads about a thing again shortly after the last time.

    `since` is the time since then; None means that they never read about it before.
    """
    return since is not None and since < (REPEATED_URGENT if urgent else REPEATED)


def worst(at: Sequence[datetime], span: timedelta) -> int:
    """Return the highest number of these moments, in order, within any such span."""
    first, most = 0, 0
    for last, moment in enumerate(at):
        while moment - at[first] >= span:
            first += 1
        most = max(most, last - first + 1)
    return most


def quantile(values: Iterable[float], share: float) -> float | None:
    """Return the smallest value that is at least as high as this share of the values."""
    found = sorted(values)
    return found[max(0, math.ceil(share * len(found)) - 1)] if found else None
