"""Limits on requests: per agent, and during quiet hours."""

from datetime import datetime
from typing import Final

import msgspec

MAX_ASKS: Final = 10  # requests of one agent within STORM_S that are told one by one
STORM_S: Final = 300.0
MAX_WOKEN: Final = 3  # requests of one agent that somebody is told of in one night
MAX_WOKEN_IN_ALL: Final = 10


class Night(msgspec.Struct):
    """Quiet hours of somebody, and an agent's requests that they were told of in them."""

    until: datetime
    passed: list[str] = []


class AskLimits(msgspec.Struct):
    """What agents asked lately, and what people were told of in nights that are not over."""

    asks: dict[str, list[float]] = {}  # when an agent last asked; who was silent longest first
    nights: dict[str, Night] = {}  # by recipient, and by recipient and agent

    def asked(self, agent: str, t: float) -> None:
        asks = self.asks
        asks[agent] = [*asks.pop(agent, []), t][-MAX_ASKS - 1 :]
        while asks[first := next(iter(asks))][-1] + STORM_S <= t:
            del asks[first]

    def storms(self, agent: str, t: float) -> bool:
        """Return True if an agent asks so much that nobody wants to read it one by one."""
        asks = self.asks.get(agent, [])
        return len(asks) > MAX_ASKS and t < asks[0] + STORM_S

    def wakes(
        self, recipient: str, party: str, request_id: str, at: datetime, until: datetime
    ) -> bool:
        """Return True if somebody may be told of a request at night, and take note of it.

        What was told once may be told again.
        """
        # What is one too many of a party must not count against the others.
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
