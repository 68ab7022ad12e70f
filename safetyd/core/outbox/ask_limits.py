"""Limits on notifications about requests: per agent, and during quiet hours."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec

from safetyd.core.anonymous_pool import ANONYMOUS

MAX_ASKS: Final = 10  # after more requests within STORM_S, an agent's requests are sent less often
STORM_S: Final = 300.0


class Night(msgspec.Struct):
    """The end of a recipient's quiet hours, and the urgent messages sent during them."""

    until: datetime
    sent: int = 0
    last_at: datetime | None = None  # messages at the same time count once


class AskLimits(msgspec.Struct):
    """The recent requests of each agent, and the urgent messages in current quiet hours."""

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

    def woken(self, name: str, until: datetime) -> int:
        """Return how many urgent messages were sent during quiet hours that end at a time.

        `name` is a recipient, or a recipient with a party.
        """
        night = self.nights.get(name)
        return night.sent if night is not None and night.until == until else 0

    def wakes(
        self,
        recipient: str,
        parties: Iterable[str],
        first: Iterable[str],
        at: datetime,
        until: datetime,
    ) -> None:
        """Record an urgent message during quiet hours. Reminders count only for the recipient.

        `first` are the parties that the message has something new about.
        """
        for past in [known for known, night in self.nights.items() if night.until <= at]:
            del self.nights[past]
        names = [party_of(recipient, party) for party in first]
        # Messages about anonymous agents only count against themselves.
        if set(parties) - {ANONYMOUS}:
            names.append(recipient)
        for name in names:
            if name not in self.nights or self.nights[name].until != until:
                self.nights[name] = Night(until)
            night = self.nights[name]
            night.sent += night.last_at != at
            night.last_at = at


def party_of(recipient: str, party: str) -> str:
    """Return the name under which the messages of a party to a recipient are counted."""
    return f"{recipient}/{party}"
