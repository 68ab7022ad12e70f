"""The one place that reads a clock: wall time for people, steady time for limits."""

import time
from datetime import UTC, datetime
from typing import Final

from safetyd.core.events import Moment

STEP_S: Final = 5.0


class Clock:
    """Gives moments whose `t` never runs backwards, also across restarts and wall-clock steps."""

    def __init__(self) -> None:
        self._offset_t = -_steady()
        self._wall_minus_steady = time.time() - _steady()

    def resume_after(self, t: float) -> None:
        """Go on from the last journalled steady second, since a reboot sets the machine's to 0."""
        self._offset_t = t - _steady()

    def now(self) -> Moment:
        return Moment(datetime.now(UTC), _steady() + self._offset_t)

    def step(self) -> float:
        """Return by how many seconds the wall clock stepped since last asked, 0.0 if it did not."""
        difference = time.time() - _steady()
        stepped = difference - self._wall_minus_steady
        if abs(stepped) <= STEP_S:
            return 0.0
        self._wall_minus_steady = difference
        return stepped


def _steady() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def uptime() -> float:
    """Return steady seconds for measuring how long something took."""
    return time.perf_counter()
