"""Whose turn it is: urgent messages first, and never more than a channel's limits allow."""

import math
from collections import deque
from collections.abc import Iterable

from safetyd.notify.channel import Limits, Rate
from safetyd.notify.delivery.channel_breaker import Fuse
from safetyd.notify.delivery.retry_queue import Errand, Queue


class Pace:
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


class Turns:
    """The errands of one channel, those that wait and those that are under way."""

    def __init__(self, limits: Limits, fuse: Fuse) -> None:
        self.under_way: dict[str, Errand] = {}
        self._limits = limits
        self._fuse = fuse
        self._queue = Queue()
        self._paces = {True: Pace(limits.rates), False: Pace(leaving_some(limits.rates))}
        self._recipients: dict[str, Pace] = {}

    def put(self, errand: Errand, at: float) -> None:
        """Let an errand wait until a time; it may be past."""
        self._queue.put(errand, at)

    def drop(self, errand: Errand) -> None:
        """Forget an errand that waits."""
        self._queue.drop(errand)

    def hurry(self) -> None:
        """Let none wait for a time of its own any more."""
        self._queue.hurry()

    def take(self, now: float) -> Errand | None:
        """Take out the one whose turn it is, if any may go now."""
        self._queue.ripen(now)
        for urgent in (True, False):
            while (errand := self._queue.first(urgent=urgent)) and self._free_at(urgent) <= now:
                self._queue.take(errand)
                at = self._recipient_free_at(errand)
                if at <= now:
                    return errand
                self._queue.put(errand, at)
        return None

    def next_at(self, now: float) -> float:
        """Return when one may have its turn, unless something else happens before."""
        self._queue.ripen(now)
        lanes = [urgent for urgent in (True, False) if self._queue.first(urgent=urgent)]
        return max(now, min((self._queue.next_at(), *map(self._free_at, lanes))))

    def began(self, errand: Errand, now: float) -> None:
        """Count a try of the one that was taken."""
        self.under_way[errand.delivery] = errand
        self._fuse.began()
        for pace in self._paces.values():
            pace.went(now)
        if rates := self._limits.recipient_rates:
            self._recipients.setdefault(errand.recipient, Pace(rates)).went(now)

    def ended(self, errand: Errand) -> None:
        del self.under_way[errand.delivery]

    def _free_at(self, urgent: bool) -> float:  # noqa: FBT001 - the lane
        normal = sum(not errand.urgent for errand in self.under_way.values())
        slots = self._limits.concurrency
        if len(self.under_way) >= slots or (not urgent and normal >= max(1, slots - 1)):
            return math.inf
        return max(self._fuse.free_at(), self._paces[urgent].free_at())

    def _recipient_free_at(self, errand: Errand) -> float:
        pace = self._recipients.get(errand.recipient)
        return -math.inf if errand.urgent or pace is None else pace.free_at()
