"""Inserts ticks between the events of a record, because ticks are not recorded.

A daemon ticks every second. If a tick caused a recorded event, the time of that event is the time
of the tick, and `Simulation` inserts a tick exactly there. It inserts more ticks in between, but
none shortly before a known tick, because everything that was due by then happened at the known
tick. Under the rules of the record, the ticks in between therefore change nothing.
"""

import heapq
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Final

from safetyd.core.events.event import Event, Moment, Ticked
from safetyd.core.simulation.recorded_lines import Recorded

AHEAD_S: Final = 5.0  # look-ahead; a daemon's ticks are never this far apart
LONGEST_S: Final = 60.0  # longest time between two ticks while nothing happens
_DRIFT: Final = timedelta(seconds=5)  # a larger difference means that the wall clock was set
_SHARE: Final = 60.0  # the time between ticks is the time without events, divided by this

Make = Callable[[Moment], Event | None]


class PassingTime:
    """Returns the ticks and scheduled events that are due before an event of the record."""

    def __init__(self) -> None:
        self.first: Recorded | None = None
        self.last: Recorded | None = None
        self.events = 0
        self.coming_t = 0.0  # the time up to which the record is known
        self._known: deque[float] = deque()  # times of future ticks, known from the record
        self._acted_t = 0.0
        self._tick_t = 0.0
        self._agenda: list[tuple[float, int, Make]] = []
        self._numbers = count()
        self.next_t = 0.0  # nothing is due before this time

    def followed(self, t: float, *, by_time: bool) -> None:
        """Record that a later event of the record is a consequence of another event.

        If its time differs from that of the previous event, a tick caused it. With `by_time`, a
        tick always caused it.
        """
        if by_time or t != self.coming_t:
            self._known.append(t)

    def acted(self, t: float) -> None:
        """Record activity at second `t`. After activity, ticks are closer together."""
        self._acted_t = t

    def later(self, t: float, make: Make) -> None:
        """Call `make` at second `t`. The event that it returns, if any, happens then."""
        heapq.heappush(self._agenda, (t, next(self._numbers), make))
        self.next_t = min(self.next_t, t)

    def due(self, before: Recorded) -> Event | None:
        """Return the next event that is due before an event of the record, or None."""
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
        """Advance to an event of the record."""
        self.last = event
        self.events += 1
        self._acted_t = event.t

    def _next_tick(self, last_t: float) -> float:
        """Return the time of the next tick. It is never before the last event."""
        quiet_s = self._tick_t - self._acted_t
        tick_t = max(last_t, self._tick_t + min(LONGEST_S, max(1.0, quiet_s / _SHARE)))
        while self._known and self._known[0] <= tick_t + AHEAD_S:
            self._tick_t = self._known.popleft()
            tick_t = max(tick_t, self._tick_t + 1.0)
        return tick_t


def _between(before: Recorded, after: Recorded, t: float) -> Moment:
    """Return the moment at second `t`. Correct the wall time if the clocks drifted slightly."""
    forth = before.at + timedelta(seconds=t - before.t)
    back = after.at - timedelta(seconds=after.t - t)
    return Moment(max(before.at, back) if timedelta() < forth - back <= _DRIFT else forth, t)
