"""Reads the clock: wall time for people, monotonic time for limits."""

import time
from datetime import UTC, datetime
from typing import Final, NamedTuple

from safetyd.core.events.event import Moment

STEP_S: Final = 5.0
COARSE_S: Final = 0.005
_REALTIME_COARSE: Final = 5  # CLOCK_REALTIME_COARSE of Linux; Python has no constant for it


class Reading(NamedTuple):
    """A moment, and by how many seconds the wall clock stepped before it (0.0 if it did not)."""

    moment: Moment
    stepped_s: float


class Clock:
    """Returns moments. Their `t` never runs backwards, even after restarts and wall-clock steps."""

    def __init__(self) -> None:
        self._offset_t = -boottime()
        self._wall_minus_steady = time.time() - boottime()  # changes only if the wall clock steps

    def resume_after(self, t: float) -> None:
        """Continue after the last journalled `t`, because a reboot resets the machine's clock."""
        self._offset_t = t - boottime()

    def now(self) -> Moment:
        return self._moment(time.time(), boottime())

    def read(self) -> Reading:
        """Return the current moment. A step of the wall clock is reported once."""
        wall, steady = time.time(), boottime()
        stepped_s = wall - steady - self._wall_minus_steady
        if abs(stepped_s) <= STEP_S:
            stepped_s = 0.0
        self._wall_minus_steady += stepped_s
        return Reading(self._moment(wall, steady), stepped_s)

    def _moment(self, wall: float, steady: float) -> Moment:
        return Moment(datetime.fromtimestamp(wall, UTC), steady + self._offset_t)


def boottime() -> float:
    """Return monotonic seconds that also pass while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def worked() -> float:
    """Return the CPU time of this thread in seconds."""
    return time.thread_time()


class CoarseWork:
    """The CPU time of this thread, read again only after some milliseconds.

    Each reading is a system call, which is too slow to make for every proposal.
    """

    def __init__(self) -> None:
        self._read_at = float("-inf")
        self._worked_s = 0.0

    def at(self, now: float) -> float:
        """Return the CPU time, read at most `COARSE_S` before `now`, which comes from `uptime`."""
        if now - self._read_at > COARSE_S:
            self._read_at, self._worked_s = now, worked()
        return self._worked_s


def file_time_ns() -> int:
    """Return the timestamp that a file would get now. The kernel's clock for files is coarse."""
    return time.clock_gettime_ns(_REALTIME_COARSE)


def after_changes_ns() -> int:
    """Return a time later than all file changes so far, even if file times are exact."""
    return time.time_ns() + 1


def uptime() -> float:
    """Return monotonic seconds, for measuring durations."""
    return time.perf_counter()
