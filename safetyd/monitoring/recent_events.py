"""The newest decisions and SafetyEvents in memory, for whoever follows what happens.

Only references are kept, so that a decision costs next to nothing here: whoever shows an event
makes a row of it. Who follows has a place in the same list and nothing of their own, so that any
number of them cost as little, and who is slow is told what is no longer there.
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
MAX_BYTES: Final = 4 * 1024 * 1024  # about, as they were sent

_SLACK: Final = MAX_EVENTS // 4  # that may be too many before some are dropped
_EVENT_BYTES: Final = 1024
_VERDICT_BYTES: Final = 512

log = logging.getLogger("safetyd.recent")

Kept = Decided | SafetyEvent
# Returns what came before an event, oldest first, and the number after which that is all.
ReadEarlier = Callable[[int], tuple[Sequence[Event], int]]

_seq = attrgetter("seq")
_encode = msgspec.json.Encoder().encode


class Missed(NamedTuple):
    """The events after `after`, up to and with `until`, are in the audit files only."""

    after: int
    until: int


class Taken(NamedTuple):
    """What is new, oldest first, and what was dropped before it could be taken."""

    events: Sequence[Kept]
    missed: Missed | None


class RecentEvents:
    """An outlet of the journal: what is here was written down before.

    Everything of both kinds after event `after` is here; `seq` is the number of the newest.
    """

    def __init__(self, seq: int, earlier: ReadEarlier) -> None:
        self._events: list[Kept] = []
        self._bytes = 0
        self._earlier = earlier  # called in another thread
        self._news = anyio.Event()
        self._waited_for = False
        self.after = seq
        self.seq = seq

    def observe(self, events: Sequence[Event]) -> None:
        """Take note of what was journalled."""
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
        """Put what happened before the start in front of what happened since."""
        try:
            events, after = await anyio.to_thread.run_sync(
                self._earlier, self.after + 1, abandon_on_cancel=True
            )
        except OSError as exc:
            log.warning("what happened before the start is not shown: %s", exc)
            return
        kept = [event for event in events if isinstance(event, Kept)]
        self._events[:0] = kept
        self._bytes += sum(map(_size, kept))
        self.after = after
        self._drop()

    def newest(self) -> Sequence[Kept]:
        """Return all there is, newest first."""
        return self._events[::-1]

    def subscribe(self, after: int | None = None) -> "Subscription":
        """Follow from event `after` on, or from now on."""
        return Subscription(self, self.seq if after is None else after)

    def later(self, seq: int, limit: int) -> Sequence[Kept]:
        """Return the first events after `seq`."""
        start = bisect_right(self._events, seq, key=_seq)
        return self._events[start : start + limit]

    async def news(self) -> None:
        """Return once there is something newer than now."""
        self._waited_for = True
        await self._news.wait()

    def _drop(self) -> None:
        """Drop the oldest until there are as many and as large as may be."""
        count = max(0, len(self._events) - MAX_EVENTS)
        self._bytes -= sum(map(_size, self._events[:count]))
        while self._bytes > MAX_BYTES:
            self._bytes -= _size(self._events[count])
            count += 1
        if count:
            self.after = self._events[count - 1].seq
            del self._events[:count]


class Subscription:
    """A reader's place: everything up to event `seq` was taken. It may be left at any time."""

    def __init__(self, recent: RecentEvents, seq: int) -> None:
        self._recent = recent
        self.seq = seq

    def take(self, limit: int = MAX_EVENTS) -> Taken:
        """Return what is new since the last time, at most `limit` events."""
        missed = None
        if self.seq < self._recent.after:
            missed = Missed(self.seq, self._recent.after)
            self.seq = missed.until
        events = self._recent.later(self.seq, limit)
        if events:
            self.seq = events[-1].seq
        return Taken(events, missed)

    async def wait(self) -> None:
        """Return once there is something to take. Who shows it should rest between two of these."""
        if self._recent.seq <= self.seq:
            await self._recent.news()


def _size(event: Kept) -> int:
    """Return about how much an event holds in memory."""
    if type(event) is not Decided:
        return _EVENT_BYTES
    said = event.proposal
    size = _EVENT_BYTES + len(event.verdicts) * _VERDICT_BYTES
    if said.context or said.extra or said.target or said.observation or said.paths:
        return size + len(_encode(said))
    return size + len(said.text) + len(said.description) + len(said.rationale) + len(said.rollback)
