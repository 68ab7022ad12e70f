"""All-clear after a stop: sent to everyone who was notified about the stop.

A stop that ends before anyone was notified has neither.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from safetyd.core.catalogue.catalogue import alert_of
from safetyd.core.catalogue.entry import Alert, everywhere
from safetyd.core.catalogue.guard_entries import stop_key
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import AnomalyFound, Resumed, Stopped
from safetyd.core.outbox.delivery_queue import DeliveryQueue

_ALL: Final = "*"
_ANOMALY: Final = "anomaly"

Tell = Callable[[Event, Alert], list[DeliveryQueue]]
Withdraw = Callable[[str], bool]


class Cause(msgspec.Struct, array_like=True):
    """Why things stand still: the epoch of a stop, and the alert that tells of it."""

    epoch: int
    key: str


class Standstill(msgspec.Struct):
    """Stops of one agent, or of all, of which people are told as of one."""

    causes: dict[str, Cause] = {}  # by source
    told: bool = False  # of a cause that is over
    ended: str = ""  # by whom and why, as far as a person ended it


class AllClears:
    """Knows what stands still. `withdraw` says whether somebody was told of an alert."""

    def __init__(self, stops: dict[str, Standstill], tell: Tell, withdraw: Withdraw) -> None:
        self._stops = stops
        self._tell = tell
        self._withdraw = withdraw

    def stopped(self, event: Stopped) -> None:
        known = self._stops.get(event.agent or _ALL, Standstill()).causes.get(event.source)
        # The finding that comes right before such a stop is what people are told.
        found = known.key if known is not None and event.source == _ANOMALY else ""
        self._stand_still(event.agent, event.source, Cause(event.epoch, found or stop_key(event)))

    def found(self, event: AnomalyFound) -> None:
        alert = alert_of(event)
        if event.severity == "critical" and alert is not None:
            self._stand_still(None, _ANOMALY, Cause(0, alert.key))

    def resumed(self, event: Resumed) -> list[DeliveryQueue]:
        """Tell those who know of a stop that it is over; return the queues."""
        standstill = self._stops.get(event.agent or _ALL)
        if standstill is None:
            return []
        for source in event.sources:
            self._end_cause(standstill, source, event)
        if standstill.causes:
            return []
        del self._stops[event.agent or _ALL]
        if not standstill.told:
            return []
        return self._tell(event, self._all_clear(event, standstill.ended or _by(event)))

    def _stand_still(self, agent: str | None, source: str, cause: Cause) -> None:
        self._withdraw(_resumed_key(agent))
        standstill = self._stops.setdefault(agent or _ALL, Standstill())
        before = standstill.causes.get(source)
        standstill.causes[source] = cause
        if before is not None:
            self._forget_cause(standstill, before)

    def _end_cause(self, standstill: Standstill, source: str, event: Resumed) -> None:
        cause = standstill.causes.get(source)
        # A stop that was pressed after this resume was asked for is newer, and holds.
        if cause is None or cause.epoch > event.epoch:
            return
        del standstill.causes[source]
        self._forget_cause(standstill, cause)
        if not source.startswith("file:"):
            standstill.ended = standstill.ended or _by(event)

    def _forget_cause(self, standstill: Standstill, cause: Cause) -> None:
        if all(other.key != cause.key for other in standstill.causes.values()):
            standstill.told |= self._withdraw(cause.key)

    def _all_clear(self, event: Resumed, ended: str) -> Alert:
        who = "Agents" if event.agent is None else event.agent
        text = f"{who} may act again, as far as the rules permit it."
        if _ALL in self._stops:
            text = f"{who} may not act yet: all agents are stopped."
        return everywhere(
            Alert(
                key=_resumed_key(event.agent),
                urgency="normal",
                title=f"RESUMED by {ended}",
                text=text,
                agent=event.agent,
            )
        )


def _by(event: Resumed) -> str:
    return f"{event.by}: {event.reason}" if event.reason else event.by


def _resumed_key(agent: str | None) -> str:
    return f"resumed {agent or _ALL}"
