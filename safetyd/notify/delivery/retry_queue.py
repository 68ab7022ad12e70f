"""Deliveries on their way: what a courier knows of one, and how they wait for their next try."""

import heapq
import math
from typing import Final

import msgspec

from safetyd.notify.channel import Limits, Unavailable

FEW: Final = 64  # that nobody wants any more may stay among the others without being looked for
JITTER: Final = 0.2  # of a delay, either way
MAX_RETRY_AFTER_S: Final = 600.0
REPEAT_S: Final = 60.0  # at least, before a copy where the number of copies is limited

Ticket = tuple[float, int, "Errand"]


class Errand(msgspec.Struct, kw_only=True, eq=False):
    """A delivery on its way: what a courier knows of it."""

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


def spent(errand: Errand, failure: Unavailable, limits: Limits) -> bool:
    """Say whether a delivery that just failed was tried often enough."""
    if limits.max_tries is not None and errand.tries >= limits.max_tries:
        return True
    repeats = limits.ambiguous_tries
    return failure.ambiguous and repeats is not None and errand.copies > repeats


def delay_s(errand: Errand, failure: Unavailable, limits: Limits, chance: float) -> float:
    """Return how long a delivery that just failed is to wait; `chance` is from 0 to 1."""
    base = limits.delays_s[min(errand.tries, len(limits.delays_s)) - 1]
    wait_s = base * (1 - JITTER + 2 * JITTER * chance)
    if failure.retry_after_s is not None:
        most = max(base, min(2 * base, MAX_RETRY_AFTER_S))
        wait_s = min(max(base, failure.retry_after_s), most)
    if failure.ambiguous and limits.ambiguous_tries is not None:
        wait_s = max(wait_s, REPEAT_S)
    return wait_s


class Queue:
    """Errands that wait, urgent ones in a lane of their own.

    Of those whose time has come, the one that was put first is the first.
    """

    def __init__(self) -> None:
        self._later: list[Ticket] = []
        self._due: dict[bool, list[Ticket]] = {True: [], False: []}  # by urgency
        self._unwanted = 0

    def put(self, errand: Errand, at: float) -> None:
        """Let an errand wait until a time; it may be past."""
        heapq.heappush(self._later, (at, errand.number, errand))

    def ripen(self, now: float) -> None:
        """Let go on what has waited for its time."""
        while self._later and self._later[0][0] <= now:
            errand = heapq.heappop(self._later)[2]
            heapq.heappush(self._due[errand.urgent], (0.0, errand.number, errand))

    def hurry(self) -> None:
        """Let everything go on now."""
        for _, number, errand in self._later:
            self._due[errand.urgent].append((0.0, number, errand))
        self._later.clear()
        for lane in self._due.values():
            heapq.heapify(lane)

    def first(self, *, urgent: bool) -> Errand | None:
        """Return whose turn it is in a lane."""
        return self._head(self._due[urgent])

    def take(self, errand: Errand) -> None:
        """Take out the one that is first in its lane."""
        heapq.heappop(self._due[errand.urgent])

    def next_at(self) -> float:
        """Return when the next of those will be due that are not yet."""
        return math.inf if self._head(self._later) is None else self._later[0][0]

    def drop(self, errand: Errand) -> None:
        """Forget an errand that waits."""
        errand.wanted = False
        self._unwanted += 1
        lanes = (self._later, *self._due.values())
        if self._unwanted > max(FEW, sum(map(len, lanes)) // 2):
            self._unwanted = 0
            for lane in lanes:
                lane[:] = [ticket for ticket in lane if ticket[2].wanted]
                heapq.heapify(lane)

    def _head(self, lane: list[Ticket]) -> Errand | None:
        while lane and not lane[0][2].wanted:
            heapq.heappop(lane)
            self._unwanted -= 1
        return lane[0][2] if lane else None
