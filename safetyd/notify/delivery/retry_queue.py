"""The queue of a channel: urgent deliveries first, within the channel's limits."""

import heapq
import math
from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from safetyd.notify.channel import Limits, Rate, Unavailable
from safetyd.notify.delivery.channel_breaker import ChannelBreaker

FEW: Final = 64  # dropped deliveries that may stay in the queue before it is cleaned up
JITTER: Final = 0.2  # a delay is longer or shorter by up to this fraction
MAX_RETRY_AFTER_S: Final = 600.0
REPEAT_S: Final = 60.0  # minimum delay before a possible duplicate, if duplicates are limited
Ticket = tuple[float, int, "QueuedDelivery"]


class QueuedDelivery(msgspec.Struct, kw_only=True, eq=False):
    """A delivery in the queue of a worker."""

    delivery: str
    recipient: str
    urgent: bool
    number: int  # the position in the order of arrival
    since: float
    again: bool = False  # True if an earlier copy may have arrived
    copies: int = 0  # the number of copies that may have arrived
    tries: int = 0
    wanted: bool = True
    error: str = ""  # the error of the last attempt


def spent(queued: QueuedDelivery, failure: Unavailable, limits: Limits) -> bool:
    """Return True if a failed delivery has used up its attempts."""
    if limits.max_tries is not None and queued.tries >= limits.max_tries:
        return True
    repeats = limits.ambiguous_tries
    return failure.ambiguous and repeats is not None and queued.copies > repeats


def delay_s(queued: QueuedDelivery, failure: Unavailable, limits: Limits, chance: float) -> float:
    """Return the delay before the next attempt. `chance` (0 to 1) sets the jitter."""
    base = limits.delays_s[min(queued.tries, len(limits.delays_s)) - 1]
    wait_s = base * (1 - JITTER + 2 * JITTER * chance)
    if failure.retry_after_s is not None:
        most = max(base, min(2 * base, MAX_RETRY_AFTER_S))
        wait_s = min(max(base, failure.retry_after_s), most)
    if failure.ambiguous and limits.ambiguous_tries is not None:
        wait_s = max(wait_s, REPEAT_S)
    return wait_s


class RetryQueue:
    """A queue of deliveries. Urgent deliveries have their own queue.

    Due deliveries are in the order in which they were first queued.
    """

    def __init__(self) -> None:
        self._later: list[Ticket] = []
        self._due: dict[bool, list[Ticket]] = {True: [], False: []}  # due deliveries by urgency
        self._unwanted = 0

    def put(self, queued: QueuedDelivery, at: float) -> None:
        """Queue a delivery to be sent at the given time, which may be in the past."""
        heapq.heappush(self._later, (at, queued.number, queued))

    def ripen(self, now: float) -> None:
        """Mark the deliveries whose time has come as due."""
        while self._later and self._later[0][0] <= now:
            queued = heapq.heappop(self._later)[2]
            heapq.heappush(self._due[queued.urgent], (0.0, queued.number, queued))

    def hurry(self) -> None:
        """Make all deliveries due now."""
        for _, number, queued in self._later:
            self._due[queued.urgent].append((0.0, number, queued))
        self._later.clear()
        for tickets in self._due.values():
            heapq.heapify(tickets)

    def first(self, *, urgent: bool) -> QueuedDelivery | None:
        """Return the first due delivery of this urgency, or None."""
        return self._head(self._due[urgent])

    def take(self, queued: QueuedDelivery) -> None:
        """Remove a delivery that `first` returned."""
        heapq.heappop(self._due[queued.urgent])

    def next_at(self) -> float:
        """Return when the next delivery becomes due, or infinity if there is none."""
        return math.inf if self._head(self._later) is None else self._later[0][0]

    def drop(self, queued: QueuedDelivery) -> None:
        """Remove a delivery from the queue."""
        queued.wanted = False
        self._unwanted += 1
        heaps = (self._later, *self._due.values())
        if self._unwanted > max(FEW, sum(map(len, heaps)) // 2):
            self._unwanted = 0
            for tickets in heaps:
                tickets[:] = [ticket for ticket in tickets if ticket[2].wanted]
                heapq.heapify(tickets)

    def _head(self, tickets: list[Ticket]) -> QueuedDelivery | None:
        while tickets and not tickets[0][2].wanted:
            heapq.heappop(tickets)
            self._unwanted -= 1
        return tickets[0][2] if tickets else None


class SendRate:
    """Rate limits. The caller calls `went` after each send."""

    def __init__(self, rates: tuple[Rate, ...]) -> None:
        self._rates = rates
        self._went: deque[float] = deque(maxlen=max((rate.most for rate in rates), default=0))

    def free_at(self) -> float:
        """Return when the next send is allowed."""
        return max(map(self._after, self._rates), default=-math.inf)

    def went(self, now: float) -> None:
        self._went.append(now)

    def _after(self, rate: Rate) -> float:
        if len(self._went) < rate.most:
            return -math.inf
        return self._went[-rate.most] + rate.per_s


def leaving_some(rates: Iterable[Rate]) -> tuple[Rate, ...]:
    """Return the rates without the tenth that is reserved for urgent messages."""
    return tuple(Rate(rate.most - rate.most // 10, rate.per_s) for rate in rates)


class SendTurns:
    """The queued and running deliveries of one channel."""

    def __init__(self, limits: Limits, breaker: ChannelBreaker) -> None:
        self.under_way: dict[str, QueuedDelivery] = {}
        self._limits = limits
        self._breaker = breaker
        self._queue = RetryQueue()
        self._rates = {True: SendRate(limits.rates), False: SendRate(leaving_some(limits.rates))}
        self._recipients: dict[str, SendRate] = {}

    def put(self, queued: QueuedDelivery, at: float) -> None:
        """Queue a delivery to be sent at the given time, which may be in the past."""
        self._queue.put(queued, at)

    def drop(self, queued: QueuedDelivery) -> None:
        """Remove a delivery from the queue."""
        self._queue.drop(queued)

    def hurry(self) -> None:
        """Make all queued deliveries due now."""
        self._queue.hurry()

    def take(self, now: float) -> QueuedDelivery | None:
        """Start the next delivery and return it, or return None if none may start now."""
        self._queue.ripen(now)
        for urgent in (True, False):
            while (queued := self._queue.first(urgent=urgent)) and self._free_at(urgent) <= now:
                self._queue.take(queued)
                at = self._recipient_free_at(queued)
                if at <= now:
                    self.under_way[queued.delivery] = queued
                    return queued
                self._queue.put(queued, at)
        return None

    def next_at(self, now: float) -> float:
        """Return when the next delivery may start, if nothing changes until then."""
        self._queue.ripen(now)
        urgencies = [urgent for urgent in (True, False) if self._queue.first(urgent=urgent)]
        return max(now, min((self._queue.next_at(), *map(self._free_at, urgencies))))

    def began(self, queued: QueuedDelivery, now: float) -> None:
        """Record the start of an attempt for a delivery that `take` returned."""
        self._breaker.began()
        for rate in self._rates.values():
            rate.went(now)
        if rates := self._limits.recipient_rates:
            self._recipients.setdefault(queued.recipient, SendRate(rates)).went(now)

    def ended(self, queued: QueuedDelivery) -> None:
        del self.under_way[queued.delivery]

    def _free_at(self, urgent: bool) -> float:  # noqa: FBT001 - key of a dict
        normal = sum(not queued.urgent for queued in self.under_way.values())
        slots = self._limits.concurrency
        if len(self.under_way) >= slots or (not urgent and normal >= max(1, slots - 1)):
            return math.inf
        return max(self._breaker.free_at(), self._rates[urgent].free_at())

    def _recipient_free_at(self, queued: QueuedDelivery) -> float:
        rate = self._recipients.get(queued.recipient)
        return -math.inf if queued.urgent or rate is None else rate.free_at()
