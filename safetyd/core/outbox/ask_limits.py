"""Limits on notifications about requests: per agent, and during quiet hours."""

from datetime import datetime
from typing import Final

import msgspec

MAX_ASKS: Final = 10  # after more requests within STORM_S, an agent's requests are sent less often
STORM_S: Final = 300.0
MAX_WOKEN: Final = 3  # maximum requests of one agent that a recipient gets in one quiet period
MAX_WOKEN_IN_ALL: Final = 10  # the same for all agents together


class Night(msgspec.Struct):
    """The end of a recipient's quiet hours, and the ids of requests sent during them."""

    until: datetime
    passed: list[str] = []


class AskLimits(msgspec.Struct):
    """The recent requests of each agent, and the requests sent in current quiet hours."""

    # Times of the last requests of each agent; the least recent agent is first.
    asks: dict[str, list[float]] = {}
    nights: dict[str, Night] = {}  # keys: a recipient, or a recipient with an agent

    def asked(self, agent: str, t: float) -> None:
        asks = self.asks
        asks[agent] = [*asks.pop(agent, []), t][-MAX_ASKS - 1 :]
        while asks[first := next(iter(asks))][-1] + STORM_S <= t:
            del asks[first]

    def storms(self, agent: str, t: float) -> bool:
        """Return True if an agent made more than `MAX_ASKS` requests within `STORM_S`."""
        asks = self.asks.get(agent, [])
        return len(asks) > MAX_ASKS and t < asks[0] + STORM_S

    def wakes(
        self, recipient: str, party: str, request_id: str, at: datetime, until: datetime
    ) -> bool:
        """Return True if a request may be sent during quiet hours, and count it.

        A request that is already counted may be sent again.
        """
        # A request over the agent's own limit must not count against other agents.
        few = self._among_first(f"{recipient}/{party}", request_id, at, until, MAX_WOKEN)
        return few and self._among_first(recipient, request_id, at, until, MAX_WOKEN_IN_ALL)

    def _among_first(
        self, name: str, request_id: str, at: datetime, until: datetime, most: int
    ) -> bool:
        nights = self.nights
        if name not in nights or nights[name].until != until:
            for past in [known for known, night in nights.items() if night.until <= at]:
                del nights[past]
            nights[name] = Night(until)
        passed = nights[name].passed
        if request_id not in passed and len(passed) < most:
            passed.append(request_id)
        return request_id in passed
