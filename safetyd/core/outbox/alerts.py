"""Notes: alerts, summaries of sessions and tests are told as well as requests are."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from safetyd.core.events.decision_events import BudgetMarked, Event, Transcribed
from safetyd.core.events.notification_events import Announced, Item, Note, NotTold
from safetyd.core.messages.proposal import Urgency
from safetyd.core.outbox.alert_rules import Alert, alert_of, budget_key, outage_key
from safetyd.core.outbox.bundling import Postroom
from safetyd.core.outbox.deliveries import Delivery
from safetyd.core.outbox.delivery_queue import SUMMARY_WINDOW, Lane, Place, high_row, lone_row
from safetyd.core.outbox.subjects import rank
from safetyd.core.party import KEYLESS
from safetyd.core.reporting.session_summary import summary

SILENCE: Final = timedelta(minutes=10)  # in which the same alert is not told twice
MAX_ALERTS: Final = 1_000  # whose last note is remembered
MAX_WORDS: Final = 200  # characters of what an agent says in a summary


class Noting(Postroom):
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

    def _alarms(self, alert: Alert, note: Note) -> dict[str, Place]:
        """Return where an alert goes at once or with the next batch, and where it goes later."""
        later = note.at + timedelta(seconds=alert.after_s)
        places = dict[str, Place]()
        for lane in self._routes.of_kinds(alert.agent, alert.later):
            place = self._alarm(alert, lane, note, later)
            places[lane] = place._replace(row=f"later:{note.id}", flush_at=later)
        for lane in self._routes.alert(alert.agent, alert.kinds, alert.not_on):
            places[lane] = self._alarm(alert, lane, note, note.at)
        return places

    def _alarm(self, alert: Alert, lane: str, note: Note, at: datetime) -> Place:
        if alert.always:
            return Place(lone_row(note.id), "alone", at)
        if alert.batch_s is not None:
            return Place("alerts", "batch", at + timedelta(seconds=alert.batch_s))
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

    def _summed(self, lane: Lane, at: datetime) -> Place:
        if lane.sums_up(at):
            return Place("summaries", "batch", at + SUMMARY_WINDOW)
        return self._usual("low", at)

    def _announced(self, event: Announced) -> Sequence[Event]:
        note = event.note
        place = self._usual(note.urgency, event.at, self._party(note.agent))
        if note.kind == "test":
            place = Place(lone_row(note.id), "alone", event.at)
        lanes = self._routes.announced(event)
        return self._due(event, self._tell(note, dict.fromkeys(lanes, place)))

    def _tell(self, note: Note, places: dict[str, Place]) -> list[Lane]:
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

    def _usual(self, urgency: Urgency, at: datetime, party: str = "") -> Place:
        """Return where such a thing of a party waits if nothing else is known of it."""
        if urgency == "high":
            return Place(high_row(party), "high", at, party=party)
        leading = self._config.batch_mode == "leading"
        return Place("batch", "batch", at if leading else at + self._interval)

    def _too_calm(self, urgency: Urgency) -> bool:
        return rank(urgency) < rank(self._config.min_urgency)

    def _hold_back(self, lanes: Iterable[Lane]) -> None:
        for lane in lanes:
            lane.held_back += 1


def _short(words: str) -> str:
    return words if len(words) <= MAX_WORDS else f"{words[: MAX_WORDS - 3]}..."
