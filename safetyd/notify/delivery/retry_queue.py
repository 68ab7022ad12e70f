"""Deliveries on their way, and whose turn it is: the urgent first, within a channel's limits."""

import heapq
import math
from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from safetyd.notify.channel import Limits, Rate, Unavailable
from safetyd.notify.delivery.channel_breaker import ChannelBreaker

FEW: Final = 64  # that nobody wants any more may stay among the others without being looked for
JITTER: Final = 0.2  # of a delay, either way
MAX_RETRY_AFTER_S: Final = 600.0
REPEAT_S: Final = 60.0  # at least, before a copy where the number of copies is limited
Ticket = tuple[float, int, "QueuedDelivery"]


class QueuedDelivery(msgspec.Struct, kw_only=True, eq=False):
    """A delivery on its way: what a worker knows of it."""

    delivery: str
    recipient: str
    urgent: bool
    number: int  # in the order in which they were put
    since: float
    again: bool = False  # a copy may have arrived
    copies: int = 0  # that may have arrived
    tries: int = 0
    wanted: bool = True
    error: str = ""  # of the last try


def spent(queued: QueuedDelivery, failure: Unavailable, limits: Limits) -> bool:
    """Return True if a delivery that just failed was tried often enough."""
    if limits.max_tries is not None and queued.tries >= limits.max_tries:
        return True
    repeats = limits.ambiguous_tries
    return failure.ambiguous and repeats is not None and queued.copies > repeats


def delay_s(queued: QueuedDelivery, failure: Unavailable, limits: Limits, chance: float) -> float:
    """Return how long a delivery that just failed is to wait; `chance` is from 0 to 1."""
    base = limits.delays_s[min(queued.tries, len(limits.delays_s)) - 1]
    wait_s = base * (1 - JITTER + 2 * JITTER * chance)
    if failure.retry_after_s is not None:
        most = max(base, min(2 * base, MAX_RETRY_AFTER_S))
        wait_s = min(max(base, failure.retry_after_s), most)
    if failure.ambiguous and limits.ambiguous_tries is not None:
        wait_s = max(wait_s, REPEAT_S)
    return wait_s


class RetryQueue:
    """Deliveries that wait, urgent ones apart.

    Of those whose time has come, the one that was put first is the first.
    """

    def __init__(self) -> None:
        self._later: list[Ticket] = []
        self._due: dict[bool, list[Ticket]] = {True: [], False: []}  # by urgency
        self._unwanted = 0

    def put(self, queued: QueuedDelivery, at: float) -> None:
        """Let a delivery wait until a time; it may be past."""
        heapq.heappush(self._later, (at, queued.number, queued))

    def ripen(self, now: float) -> None:
        """Let go on what has waited for its time."""
        while self._later and self._later[0][0] <= now:
            queued = heapq.heappop(self._later)[2]
            heapq.heappush(self._due[queued.urgent], (0.0, queued.number, queued))

    def hurry(self) -> None:
        """Let everything go on now."""
        for _, number, queued in self._later:
            self._due[queued.urgent].append((0.0, number, queued))
        self._later.clear()
        for tickets in self._due.values():
            heapq.heapify(tickets)

    def first(self, *, urgent: bool) -> QueuedDelivery | None:
        """Return whose turn it is among those that are as urgent."""
        return self._head(self._due[urgent])

    def take(self, queued: QueuedDelivery) -> None:
        """Take out the one that is first of those that are as urgent."""
        heapq.heappop(self._due[queued.urgent])

    def next_at(self) -> float:
        """Return when the next of those will be due that are not yet."""
        return math.inf if self._head(self._later) is None else self._later[0][0]

    def drop(self, queued: QueuedDelivery) -> None:
        """Forget a delivery that waits."""
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
    """How often something may happen; whoever lets it happen says when it did."""

    def __init__(self, rates: tuple[Rate, ...]) -> None:
        self._rates = rates
        self._went: deque[float] = deque(maxlen=max((rate.most for rate in rates), default=0))

    def free_at(self) -> float:
        """Return when the next one may go."""
        return max(map(self._after, self._rates), default=-math.inf)

    def went(self, now: float) -> None:
        self._went.append(now)

    def _after(self, rate: Rate) -> float:
        if len(self._went) < rate.most:
            return -math.inf
        return self._went[-rate.most] + rate.per_s


def leaving_some(rates: Iterable[Rate]) -> tuple[Rate, ...]:
    """Return the rates less a tenth, which is left to what is urgent."""
    return tuple(Rate(rate.most - rate.most // 10, rate.per_s) for rate in rates)


class SendTurns:
    """The deliveries of one channel, those that wait and those that are under way."""

    def __init__(self, limits: Limits, breaker: ChannelBreaker) -> None:
        self.under_way: dict[str, QueuedDelivery] = {}
        self._limits = limits
        self._breaker = breaker
        self._queue = RetryQueue()
        self._rates = {True: SendRate(limits.rates), False: SendRate(leaving_some(limits.rates))}
        self._recipients: dict[str, SendRate] = {}

    def put(self, queued: QueuedDelivery, at: float) -> None:
        """Let a delivery wait until a time; it may be past."""
        self._queue.put(queued, at)

    def drop(self, queued: QueuedDelivery) -> None:
        """Forget a delivery that waits."""
        self._queue.drop(queued)

    def hurry(self) -> None:
        """Let none wait for a time of its own any more."""
        self._queue.hurry()

    def take(self, now: float) -> QueuedDelivery | None:
        """Let the one whose turn it is be under way, if any may go now."""
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
        """Return when one may have its turn, unless something else happens before."""
        self._queue.ripen(now)
        urgencies = [urgent for urgent in (True, False) if self._queue.first(urgent=urgent)]
        return max(now, min((self._queue.next_at(), *map(self._free_at, urgencies))))

    def began(self, queued: QueuedDelivery, now: float) -> None:
        """Count a try of the one that was taken."""
        self._breaker.began()
        for rate in self._rates.values():
            rate.went(now)
        if rates := self._limits.recipient_rates:
            self._recipients.setdefault(queued.recipient, SendRate(rates)).went(now)

    def ended(self, queued: QueuedDelivery) -> None:
        del self.under_way[queued.delivery]

    def _free_at(self, urgent: bool) -> float:  # noqa: FBT001 - one of two
        normal = sum(not queued.urgent for queued in self.under_way.values())
        slots = self._limits.concurrency
        if len(self.under_way) >= slots or (not urgent and normal >= max(1, slots - 1)):
            return math.inf
        return max(self._breaker.free_at(), self._rates[urgent].free_at())

    def _recipient_free_at(self, queued: QueuedDelivery) -> float:
        rate = self._recipients.get(queued.recipient)
        return -math.inf if queued.urgent or rate is None else rate.free_at()
