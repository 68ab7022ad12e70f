"""All-clears: notify recipients that a stop is over.

If a stop ends before anyone was notified about it, no all-clear is sent.
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
    """One cause of a stop: its epoch, and the key of the alert about it."""

    epoch: int
    key: str


class Standstill(msgspec.Struct):
    """All active stops of one agent, or of all agents. They share one all-clear."""

    causes: dict[str, Cause] = {}  # by source
    told: bool = False  # True: an alert was sent about a cause that has since ended
    ended: str = ""  # the operator who ended the last cause, and the reason


class AllClears:
    """Tracks active stops. `withdraw` returns True if the alert was sent to anyone."""

    def __init__(self, stops: dict[str, Standstill], tell: Tell, withdraw: Withdraw) -> None:
        self._stops = stops
        self._tell = tell
        self._withdraw = withdraw

    def stopped(self, event: Stopped) -> None:
        known = self._stops.get(event.agent or _ALL, Standstill()).causes.get(event.source)
        # The alert was sent for the anomaly, which is recorded just before its stop.
        found = known.key if known is not None and event.source == _ANOMALY else ""
        self._stand_still(event.agent, event.source, Cause(event.epoch, found or stop_key(event)))

    def found(self, event: AnomalyFound) -> None:
        alert = alert_of(event)
        if event.severity == "critical" and alert is not None:
            self._stand_still(None, _ANOMALY, Cause(0, alert.key))

    def resumed(self, event: Resumed) -> list[DeliveryQueue]:
        """Queue the all-clear if no cause is left and an alert was sent."""
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
        # A stop with a newer epoch is newer than this resume, so it stays active.
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
        # Events of older versions keep their words, so that a replay leads to the same state.
        single = [name for name in self._stops if name != _ALL and event.urgent]
        others = f"Agents except {', '.join(single)}" if single else "Agents"
        who = others if event.agent is None else event.agent
        named = f" {event.agent}" if event.agent and event.urgent else ""
        text = f"{who} may act again, as far as the rules permit it."
        if _ALL in self._stops:
            text = f"{who} may not act yet: all agents are stopped."
        return everywhere(
            Alert(
                key=_resumed_key(event.agent),
                urgency="high" if event.urgent else "normal",
                title=f"RESUMED{named} by {ended}",
                text=text,
                agent=event.agent,
            )
        )


def _by(event: Resumed) -> str:
    return f"{event.by}: {event.reason}" if event.reason else event.by


def _resumed_key(agent: str | None) -> str:
    return f"resumed {agent or _ALL}"
