"""All-clears: who was told of a stop or of a channel that fails hears when that is over.

What is over before anybody heard of it is not told at all.
"""

from collections.abc import Sequence
from typing import Final

from safetyd.core.events.decision_events import AnomalyFound, BudgetMarked, Event, Resumed, Stopped
from safetyd.core.events.notification_events import ChannelMoved
from safetyd.core.outbox.alert_rules import (
    Alert,
    alert_of,
    budget_key,
    everywhere,
    loss_key,
    outage_key,
    stop_key,
)
from safetyd.core.outbox.alerts import Noting
from safetyd.core.outbox.bundling import Cause, Standstill

_ALL: Final = "*"
_ANOMALY: Final = "anomaly"


class Clearing(Noting):
    def _stopped(self, event: Stopped) -> None:
        known = self._state.stops.get(event.agent or _ALL, Standstill()).causes.get(event.source)
        # The finding that comes right before such a stop is what people are told.
        found = known.key if known is not None and event.source == _ANOMALY else ""
        self._stand_still(event.agent, event.source, Cause(event.epoch, found or stop_key(event)))

    def _found(self, event: AnomalyFound) -> None:
        alert = alert_of(event)
        if event.severity == "critical" and alert is not None:
            self._stand_still(None, _ANOMALY, Cause(0, alert.key))

    def _stand_still(self, agent: str | None, source: str, cause: Cause) -> None:
        self._withdraw(_resumed_key(agent))
        standstill = self._state.stops.setdefault(agent or _ALL, Standstill())
        before = standstill.causes.get(source)
        standstill.causes[source] = cause
        if before is not None:
            self._forget_cause(standstill, before)

    def _resumed(self, event: Resumed) -> Sequence[Event]:
        standstill = self._state.stops.get(event.agent or _ALL)
        if standstill is None:
            return ()
        for source in event.sources:
            self._end_cause(standstill, source, event)
        if standstill.causes:
            return ()
        del self._state.stops[event.agent or _ALL]
        if self.idle or not standstill.told:
            return ()
        return self._raise(event, self._all_clear(event, standstill.ended or _by(event)))

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
        if _ALL in self._state.stops:
            text = f"{who} may do nothing yet: everything is stopped."
        return everywhere(
            Alert(
                key=_resumed_key(event.agent),
                urgency="normal",
                title=f"RESUMED by {ended}",
                text=text,
                agent=event.agent,
            )
        )

    def _mended(self, event: ChannelMoved) -> Sequence[Event]:
        """Tell those who know that a channel failed, on the others, that it works again."""
        channel = event.channel
        self._withdraw(loss_key(channel))
        if not self._withdraw(outage_key(channel)) or self.idle:
            return ()
        alert = Alert(
            key=_mended_key(channel),
            urgency="normal",
            title=f"CHANNEL UP: {channel} takes messages again",
            text="What waited for it is told now.",
            not_on=(channel,),
        )
        return self._raise(event, alert)

    def _broken(self, channel: str) -> None:
        self._withdraw(_mended_key(channel))

    def _marked(self, event: BudgetMarked) -> None:
        if event.mark == "exceeded":
            self._withdraw(budget_key(event, "warning"))


def _by(event: Resumed) -> str:
    return f"{event.by}: {event.reason}" if event.reason else event.by


def _resumed_key(agent: str | None) -> str:
    return f"resumed {agent or _ALL}"


def _mended_key(channel: str) -> str:
    return f"channel_up {channel}"
