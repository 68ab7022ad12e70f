"""Alerts, summaries of sessions and tests are told as well as requests are; so is the all-clear.

Who was told of a stop or of a channel that fails hears when that is over. What is over before
anybody heard of it is not told at all.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from safetyd.core.events.decision_events import Transcribed
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import AnomalyFound, BudgetMarked, Resumed, Stopped
from safetyd.core.events.notification_events import Announced, ChannelMoved, Item, Note, NotTold
from safetyd.core.messages.proposal import Urgency
from safetyd.core.outbox.alert_rules import (
    Alert,
    alert_of,
    budget_key,
    everywhere,
    loss_key,
    outage_key,
    stop_key,
)
from safetyd.core.outbox.bundling import Bundling, Cause, Standstill
from safetyd.core.outbox.deliveries import Delivery, rank
from safetyd.core.outbox.delivery_queue import (
    SUMMARY_WINDOW,
    DeliveryQueue,
    Slot,
    high_row,
    lone_row,
)
from safetyd.core.party import KEYLESS
from safetyd.core.reporting.session_summary import summary

SILENCE: Final = timedelta(minutes=10)  # in which the same alert is not told twice
MAX_ALERTS: Final = 1_000  # whose last note is remembered
MAX_WORDS: Final = 200  # characters of what an agent says in a summary


class Alerts(Bundling):
    def _alerted(self, event: Event) -> Sequence[Event]:
        alert = None if self.idle else alert_of(event, self._config.alert_batch_s)
        return () if alert is None or self._needless(event) else self._raise(event, alert)

    def _raise(self, event: Event, alert: Alert) -> Sequence[Event]:
        if self._repeats(alert, event.at):
            return ()
        note = Note(
            id=f"note_{event.seq}",
            kind="alert",
            urgency=alert.urgency,
            title=alert.title,
            text=alert.text,
            at=event.at,
            agent=alert.agent,
        )
        lanes = self._tell(note, self._alarms(alert, note))
        if lanes:
            self._remember(alert.key, note.id)
        if lanes and alert.not_on:
            self._deliveries.of_channel(note.id)
        return self._due(event, lanes)

    def _alarms(self, alert: Alert, note: Note) -> dict[str, Slot]:
        """Return where an alert goes at once or with the next batch, and where it goes later."""
        later = note.at + timedelta(seconds=alert.after_s)
        places = dict[str, Slot]()
        for lane in self._routes.of_kinds(alert.agent, alert.later):
            place = self._alarm(alert, lane, note, later)
            places[lane] = place._replace(row=f"later:{note.id}", flush_at=later)
        for lane in self._routes.alert(alert.agent, alert.kinds, alert.not_on):
            places[lane] = self._alarm(alert, lane, note, note.at)
        return places

    def _alarm(self, alert: Alert, lane: str, note: Note, at: datetime) -> Slot:
        if alert.always:
            return Slot(lone_row(note.id), "alone", at)
        if alert.batch_s is not None:
            return Slot("alerts", "batch", at + timedelta(seconds=alert.batch_s))
        recipient = self._state.lanes[lane].recipient
        sleeps = self._config.quiet_bypass == "none" and self.quiet_until(recipient, at)
        return self._usual("normal" if sleeps else alert.urgency, at, self._party(alert.agent))

    def _needless(self, event: Event) -> bool:
        """Say whether people know an alert's worse half, or could only be told of the telling."""
        match event:
            case BudgetMarked(mark="warning"):
                return self._silent(budget_key(event, "exceeded"), event.at)
            case NotTold():
                delivery = self.find(event.delivery)
                alarm = delivery is not None and self._deliveries.only_of_channels(delivery)
                lost = event.state != "parked"
                return alarm or (lost and outage_key(event.channel) in self._state.alerts)
        return False

    def _withdraw(self, alert_key: str) -> bool:
        """Tell nobody else of what is over, and as of new if it happens again.

        Say whether somebody was told of it, or may just be.
        """
        ref = self._state.alerts.pop(alert_key, "")
        if self.note(ref) is None:
            return bool(ref)  # it was told so long ago that nobody remembers
        told = any(self._reaches(delivery) for delivery in self._deliveries.about(ref))
        self._drop(ref)
        self._deliveries.end(ref)
        self._release((ref,))
        return told

    def _reaches(self, delivery: Delivery) -> bool:
        trying = delivery.state == "open" and delivery.channel not in self._state.down
        return delivery.arrived or trying

    def _repeats(self, alert: Alert, at: datetime) -> bool:
        """Say whether an alert is known: one that waits is counted, another not told again."""
        note = self.note(self._state.alerts.get(alert.key, ""))
        if note is None:
            return False
        if self._holds(note.id):
            self._deliveries.count(note)
            return True
        return self._silent(alert.key, at)

    def _silent(self, alert_key: str, at: datetime) -> bool:
        """Say whether such an alert came so recently that it is no news."""
        note = self.note(self._state.alerts.get(alert_key, ""))
        return note is not None and note.at <= at < note.at + SILENCE

    def _remember(self, alert_key: str, note_id: str) -> None:
        alerts = self._state.alerts
        alerts.pop(alert_key, None)
        alerts[alert_key] = note_id
        if len(alerts) > MAX_ALERTS:
            del alerts[next(iter(alerts))]

    def _transcribed(self, event: Transcribed) -> Sequence[Event]:
        transcript, wanted = event.transcript, self._config.summaries
        lanes = self._routes.summary(transcript.agent)
        if wanted == "off" or (wanted == "review" and not transcript.pending_permissions):
            return ()
        title, _, text = summary(transcript, _short).partition("\n\n")
        note = Note(
            id=f"note_{event.seq}",
            kind="summary",
            urgency="low",
            title=title,
            text=text,
            at=event.at,
            agent=transcript.agent,
        )
        places = {lane: self._summed(self._state.lanes[lane], event.at) for lane in lanes}
        return self._due(event, self._tell(note, places))

    def _summed(self, lane: DeliveryQueue, at: datetime) -> Slot:
        if lane.sums_up(at):
            return Slot("summaries", "batch", at + SUMMARY_WINDOW)
        return self._usual("low", at)

    def _announced(self, event: Announced) -> Sequence[Event]:
        note = event.note
        place = self._usual(note.urgency, event.at, self._party(note.agent))
        if note.kind == "test":
            place = Slot(lone_row(note.id), "alone", event.at)
        lanes = self._routes.announced(event)
        return self._due(event, self._tell(note, dict.fromkeys(lanes, place)))

    def _tell(self, note: Note, places: dict[str, Slot]) -> list[DeliveryQueue]:
        """Let a note wait in its places; return these lanes."""
        lanes = [self._state.lanes[name] for name in places]
        if note.kind != "test" and self._too_calm(note.urgency):
            self._hold_back(lanes)
            return []
        if lanes and (forgotten := self._deliveries.keep(note)):
            self._drop(forgotten)
        for lane, place in zip(lanes, places.values(), strict=True):
            lane.put(Item(note.kind, note.id), place, note.at)
        return lanes

    def _party(self, agent: str | None) -> str:
        """Return whose urgent messages a note takes; what is about no agent takes nobody's."""
        if agent is None:
            return ""
        return KEYLESS if self._keyless(agent) else agent

    def _usual(self, urgency: Urgency, at: datetime, party: str = "") -> Slot:
        """Return where such a thing of a party waits if nothing else is known of it."""
        if urgency == "high":
            return Slot(high_row(party), "high", at, party=party)
        leading = self._config.batch_mode == "leading"
        return Slot("batch", "batch", at if leading else at + self._interval)

    def _too_calm(self, urgency: Urgency) -> bool:
        return rank(urgency) < rank(self._config.min_urgency)

    def _hold_back(self, lanes: Iterable[DeliveryQueue]) -> None:
        for lane in lanes:
            lane.held_back += 1


def _short(words: str) -> str:
    return words if len(words) <= MAX_WORDS else f"{words[: MAX_WORDS - 3]}..."


_ALL: Final = "*"
_ANOMALY: Final = "anomaly"


class AllClear(Alerts):
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
