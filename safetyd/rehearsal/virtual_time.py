"""Virtual time: an event loop that does not sleep, and a clock that shows its time."""

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final, TypeVar

import anyio

from safetyd.clock import Clock, Reading
from safetyd.core.events.event import Moment

T = TypeVar("T")
CLOCK_RESOLUTION_S: Final = 1e-6


class _JumpingSelector(selectors.DefaultSelector):
    """Returns what is ready now. If nothing is, it passes the time instead of waiting."""

    def __init__(self, jump: Callable[[float], None]) -> None:
        super().__init__()
        self._jump = jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise RuntimeError("every task waits, and none for a time")
        self._jump(timeout)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer as soon as nothing is left to do.

    It must not be used with threads: it does not wait for them.
    """

    def __init__(self) -> None:
        self._passed_s = 0.0
        super().__init__(_JumpingSelector(self._jump))
        # After two months, the default of a nanosecond is too little to change the time. Then a
        # timer that is due exactly now would never run.
        self._clock_resolution = CLOCK_RESOLUTION_S

    def time(self) -> float:
        return self._passed_s

    def _jump(self, seconds: float) -> None:
        self._passed_s += seconds


class VirtualClock(Clock):
    """Shows the time of the running event loop, which starts at `start`."""

    def __init__(self, start: datetime) -> None:
        super().__init__()
        self._start = start

    def now(self) -> Moment:
        t = asyncio.get_running_loop().time()
        return Moment(self._start + timedelta(seconds=t), t)

    def read(self) -> Reading:
        return Reading(self.now(), 0.0)


def run_on_virtual_time(main: Callable[[], Awaitable[T]]) -> T:
    """Run `main` on an event loop that does not sleep, and return its result."""
    return anyio.run(main, backend_options={"loop_factory": VirtualTimeLoop})
