"""The newest decisions and SafetyEvents in memory, for feeds and lists.

Recording an event is cheap, because only a reference is stored. A subscriber is only a position in
the list, so there can be many. A slow subscriber learns which events were dropped.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

import anyio
import anyio.to_thread
import msgspec

from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event

MAX_EVENTS: Final = 2000
MAX_BYTES: Final = 4 * 1024 * 1024  # approximately

_SLACK: Final = MAX_EVENTS // 4  # how far MAX_EVENTS may be exceeded before events are dropped
_EVENT_BYTES: Final = 1024
_VERDICT_BYTES: Final = 512

log = logging.getLogger("safetyd.recent")

Kept = Decided | SafetyEvent
# Returns the newest events before an event number, oldest first. The second result is the event
# number after which they are complete.
ReadEarlier = Callable[[int], tuple[Sequence[Event], int]]

_seq = attrgetter("seq")
_encode = msgspec.json.Encoder().encode


class Missed(NamedTuple):
    """Events after `after`, up to and including `until`, that are only in the audit files."""

    after: int
    until: int


class Taken(NamedTuple):
    """New events, oldest first, and those that were dropped before they could be read."""

    events: Sequence[Kept]
    missed: Missed | None


class RecentEvents:
    """Recent durable events: all decisions and SafetyEvents after event `after`, up to `seq`."""

    def __init__(self, seq: int, earlier: ReadEarlier) -> None:
        self._events: list[Kept] = []
        self._bytes = 0
        self._earlier = earlier  # called in another thread
        self._news = anyio.Event()
        self._waited_for = False
        self.after = seq
        self.seq = seq

    def observe(self, events: Sequence[Event]) -> None:
        """Add durable events."""
        new = [event for event in events if type(event) is Decided or type(event) is SafetyEvent]
        if not new:
            return
        self._events += new
        self._bytes += sum(map(_size, new))
        self.seq = new[-1].seq
        if len(self._events) > MAX_EVENTS + _SLACK or self._bytes > MAX_BYTES:
            self._drop()
        if self._waited_for:
            self._waited_for = False
            self._news.set()
            self._news = anyio.Event()

    async def refill(self) -> None:
        """Load events from before the daemon started."""
        try:
            events, after = await anyio.to_thread.run_sync(
                self._earlier, self.after + 1, abandon_on_cancel=True
            )
        except OSError as exc:
            log.warning("cannot show events from before the daemon started: %s", exc)
            return
        kept = [event for event in events if isinstance(event, Kept)]
        self._events[:0] = kept
        self._bytes += sum(map(_size, kept))
        self.after = after
        self._drop()

    def newest(self) -> Sequence[Kept]:
        """Return all events, newest first."""
        return self._events[::-1]

    def subscribe(self, after: int | None = None) -> "Subscription":
        """Subscribe from event `after`, or from now."""
        return Subscription(self, self.seq if after is None else after)

    def later(self, seq: int, limit: int) -> Sequence[Kept]:
        """Return the first events after `seq`, at most `limit`."""
        start = bisect_right(self._events, seq, key=_seq)
        return self._events[start : start + limit]

    async def news(self) -> None:
        """Wait for the next event."""
        self._waited_for = True
        await self._news.wait()

    def _drop(self) -> None:
        """Drop the oldest events until the limits are met."""
        count = max(0, len(self._events) - MAX_EVENTS)
        self._bytes -= sum(map(_size, self._events[:count]))
        while self._bytes > MAX_BYTES:
            self._bytes -= _size(self._events[count])
            count += 1
        if count:
            self.after = self._events[count - 1].seq
            del self._events[:count]


class Subscription:
    """A reader's position: everything up to event `seq` was read. No need to close it."""

    def __init__(self, recent: RecentEvents, seq: int) -> None:
        self._recent = recent
        self.seq = seq

    def take(self, limit: int = MAX_EVENTS) -> Taken:
        """Return at most `limit` new events, and the events that were dropped."""
        missed = None
        if self.seq < self._recent.after:
            missed = Missed(self.seq, self._recent.after)
            self.seq = missed.until
        events = self._recent.later(self.seq, limit)
        if events:
            self.seq = events[-1].seq
        return Taken(events, missed)

    async def wait(self) -> None:
        """Wait until there are new events."""
        if self._recent.seq <= self.seq:
            await self._recent.news()


def _size(event: Kept) -> int:
    """Return approximately how much memory an event uses."""
    if type(event) is not Decided:
        return _EVENT_BYTES
    said = event.proposal
    size = _EVENT_BYTES + len(event.verdicts) * _VERDICT_BYTES
    if said.context or said.extra or said.target or said.observation or said.paths:
        return size + len(_encode(said))
    return size + len(said.text) + len(said.description) + len(said.rationale) + len(said.rollback)
