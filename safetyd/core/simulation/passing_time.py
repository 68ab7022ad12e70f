"""Time between the events of a record: ticks are never written down, so they are put in again.

A daemon ticks every second. Where the record shows what only time brought about, there was a tick,
and `Simulation` puts it exactly there. Others are put in between, but none shortly before one that
is known: what would be due by then happened at that one. So under the rules of the record those
in between change nothing.
"""

import heapq
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Final

from safetyd.core.events.event import Event, Moment, Ticked
from safetyd.core.simulation.recorded_lines import Recorded

AHEAD_S: Final = 5.0  # how far is looked ahead: longer than a daemon goes without a tick
LONGEST_S: Final = 60.0  # between two ticks while nothing happens
_DRIFT: Final = timedelta(seconds=5)  # a wall clock that moves further has stepped
_SHARE: Final = 60.0  # of the time since something happened: the longer ago, the fewer ticks

Make = Callable[[Moment], Event | None]


class PassingTime:
    """Says what is due before an event: ticks, and what was put on the agenda."""

    def __init__(self) -> None:
        self.first: Recorded | None = None
        self.last: Recorded | None = None
        self.events = 0
        self.coming_t = 0.0  # so far the record is known
        self._known: deque[float] = deque()  # ticks to come that the record shows
        self._acted_t = 0.0
        self._tick_t = 0.0
        self._agenda: list[tuple[float, int, Make]] = []
        self._numbers = count()
        self.next_t = 0.0  # nothing is due before

    def followed(self, t: float, *, by_time: bool) -> None:
        """Record an event that comes later, and that others caused.

        If it is the first of its second, only time can have. What is `by_time` comes with time also
        if something else came just before it.
        """
        if by_time or t != self.coming_t:
            self._known.append(t)

    def acted(self, t: float) -> None:
        """Record that something happened: more may soon."""
        self._acted_t = t

    def later(self, t: float, make: Make) -> None:
        """Let something happen at second `t`, or not if `make` then returns nothing."""
        heapq.heappush(self._agenda, (t, next(self._numbers), make))
        self.next_t = min(self.next_t, t)

    def due(self, before: Recorded) -> Event | None:
        """Return the next thing that happens before an event of the record, if anything does."""
        if self.last is None:
            self._tick_t = self._acted_t = before.t
            self.first = self.last = before
        tick_t = self._next_tick(self.last.t)
        ticks = tick_t <= min(before.t, self.coming_t - AHEAD_S)
        while self._agenda and self._agenda[0][0] <= (tick_t if ticks else before.t):
            t, _, make = heapq.heappop(self._agenda)
            if (event := make(_between(self.last, before, t))) is not None:
                return event
        self.next_t = min(tick_t, self._agenda[0][0]) if self._agenda else tick_t
        if not ticks:
            return None
        self._tick_t = tick_t
        return Ticked(at=_between(self.last, before, tick_t).at, t=tick_t)

    def reached(self, event: Recorded) -> None:
        """Record an event of the record."""
        self.last = event
        self.events += 1
        self._acted_t = event.t

    def _next_tick(self, last_t: float) -> float:
        """Return when the next tick is due, not before what happened last."""
        quiet_s = self._tick_t - self._acted_t
        tick_t = max(last_t, self._tick_t + min(LONGEST_S, max(1.0, quiet_s / _SHARE)))
        while self._known and self._known[0] <= tick_t + AHEAD_S:
            self._tick_t = self._known.popleft()
            tick_t = max(tick_t, self._tick_t + 1.0)
        return tick_t


def _between(before: Recorded, after: Recorded, t: float) -> Moment:
    """Return the moment of second `t`: the earlier one if the clocks drifted, before any step."""
    forth = before.at + timedelta(seconds=t - before.t)
    back = after.at - timedelta(seconds=after.t - t)
    return Moment(max(before.at, back) if timedelta() < forth - back <= _DRIFT else forth, t)
