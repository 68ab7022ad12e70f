"""Queues alerts, session summaries and test messages."""

from datetime import datetime, timedelta
from typing import Final

from safetyd.core.catalogue.catalogue import CATALOGUE, alert_of
from safetyd.core.catalogue.entry import Alert
from safetyd.core.catalogue.guard_entries import budget_key
from safetyd.core.catalogue.notification_entries import outage_key
from safetyd.core.events.decision_events import Transcribed
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import BudgetMarked
from safetyd.core.events.notification_events import Announced, Item, Note, NotTold
from safetyd.core.outbox.deliveries import Deliveries, Delivery, Notes
from safetyd.core.outbox.delivery_queue import DeliveryQueue, Slot, hold_back
from safetyd.core.outbox.routing import Routing
from safetyd.core.outbox.slots import Slots
from safetyd.core.recipients import TellingConfig
from safetyd.core.reporting.session_summary import summary

# The same alert is not sent twice within this time, unless its cause has ended meanwhile.
SILENCE: Final = timedelta(hours=4)
URGENT_SILENCE: Final = timedelta(hours=1)
MAX_ALERTS: Final = 1_000  # number of alert keys whose last note is remembered
MAX_WORDS: Final = 200  # maximum length of an agent's text in a summary

Placed = dict[str, tuple[DeliveryQueue, Slot]]  # a queue and a slot in it, by the key of the queue


class Alerts:
    """Queues notes. `last` maps alert keys to note ids.

    Methods that queue a note return the queues that they changed.
    """

    def __init__(
        self,
        config: TellingConfig,
        last: dict[str, str],
        notes: Notes,
        deliveries: Deliveries,
        routing: Routing,
        slots: Slots,
    ) -> None:
        self._config = config
        self._last = last
        self._notes = notes
        self._deliveries = deliveries
        self._routing = routing
        self._slots = slots

    def over(self, event: Event) -> frozenset[str]:
        """Withdraw the alerts that an event ends. Return the keys of those that were sent."""
        ends = CATALOGUE[type(event)].ends
        return frozenset(key for key in (ends(event) if ends else ()) if self.withdraw(key))

    def heard(self, event: Event, over: frozenset[str] = frozenset()) -> list[DeliveryQueue]:
        """Queue the alert of an event, if any. Queue an all-clear only if `over` has its alert."""
        alert = None if self._routing.idle else alert_of(event)
        if alert is None or self._needless(event):
            return []
        return [] if alert.clears and over.isdisjoint(alert.clears) else self.tell(event, alert)

    def tell(self, event: Event, alert: Alert) -> list[DeliveryQueue]:
        if self._repeats(alert, event.at):
            return []
        note = Note(
            id=f"note_{event.seq}",
            kind="alert",
            urgency=alert.urgency,
            title=alert.title,
            text=alert.text,
            at=event.at,
            agent=alert.agent,
        )
        queues = self.put(alert.key, note, self._placed(alert, note))
        if queues and alert.not_on:
            self._notes.of_channel(note.id)
        return queues

    def remembers(self, alert_key: str) -> bool:
        """Return True if an alert was queued and has not been withdrawn."""
        return alert_key in self._last

    def withdraw(self, alert_key: str) -> bool:
        """Withdraw an alert, so that the next one with its key counts as new.

        Return True if it was delivered to anyone, or is being sent now.
        """
        ref = self._last.pop(alert_key, "")
        if self._notes.find(ref) is None:
            return bool(ref)  # it was sent so long ago that its note is no longer stored
        told = any(self._reaches(delivery) for delivery in self._deliveries.about(ref))
        self._notes.end(ref)
        return told

    def move(self, event: Event, recipient: str, item: Item) -> list[DeliveryQueue]:
        """Queue an alert on a channel of its recipient that was not tried yet."""
        who, note = self._routing.find(recipient), self._notes.find(item.ref)
        if who is None or note is None or self._notes.ended(item.ref):
            return []
        tried = [delivery.queue for delivery in self._deliveries.about(item.ref)]
        queues = self._routing.untried(who, note.urgency, tried)
        for queue in queues:
            queue.put(item, self._slots.moved(note, event.at), event.at)
        return queues

    def transcribed(self, event: Transcribed) -> list[DeliveryQueue]:
        """Queue the summary of a session, if summaries are enabled."""
        transcript, wanted = event.transcript, self._config.summaries
        if wanted == "off" or (wanted == "review" and not transcript.pending_permissions):
            return []
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
        queues = self._routing.summary(transcript.agent, event.at)
        slots = {queue.key: (queue, self._slots.summary(queue, event.at)) for queue in queues}
        return self._put(note, slots)

    def announced(self, event: Announced) -> list[DeliveryQueue]:
        """Queue an announced note."""
        slot = self._slots.announced(event.note, event.at)
        queues = self._routing.announced(event)
        return self._put(event.note, {queue.key: (queue, slot) for queue in queues})

    def put(self, key: str, note: Note, placed: Placed) -> list[DeliveryQueue]:
        """Queue a note as the alert with a key, so that it can be withdrawn."""
        queues = self._put(note, placed)
        if queues:
            self._remember(key, note.id)
        return queues

    def _placed(self, alert: Alert, note: Note) -> Placed:
        """Return the queue and slot for each channel that gets the alert, now or later."""
        placed: Placed = {}
        now = self._routing.alert(alert, note.at)
        for queue in self._routing.later(alert, note.at, now):
            placed[queue.key] = queue, self._slots.later(queue, alert, note)
        for queue in now:
            placed[queue.key] = queue, self._slots.alert(queue, alert, note)
        return placed

    def _put(self, note: Note, placed: Placed) -> list[DeliveryQueue]:
        """Queue a note and return the queues. A note that is not urgent enough is only counted."""
        queues = [queue for queue, _ in placed.values()]
        if note.kind != "test" and self._slots.too_calm(note.urgency):
            hold_back(queues)
            return []
        if queues:
            self._notes.keep(note)
        for queue, slot in placed.values():
            queue.put(Item(note.kind, note.id), slot, note.at)
        return queues

    def _needless(self, event: Event) -> bool:
        """Return True if an alert about this event would say nothing new.

        That is the case if a worse alert was just sent, if the undelivered message was itself about
        channels, or if operators were already notified that the channel is down.
        """
        match event:
            case BudgetMarked(mark="warning"):
                return self._silent(budget_key(event, "exceeded"), event.at)
            case NotTold():
                delivery = self._deliveries.find(event.delivery)
                alarm = delivery is not None and self._notes.only_of_channels(delivery)
                lost = event.state != "parked"
                return alarm or (lost and outage_key(event.channel) in self._last)
        return False

    def _reaches(self, delivery: Delivery) -> bool:
        trying = delivery.state == "open" and not self._routing.is_down(delivery.channel)
        return delivery.arrived or trying

    def _repeats(self, alert: Alert, at: datetime) -> bool:
        """Return True if an alert repeats a recent one. Count it in a note that is still queued."""
        note = self._notes.find(self._last.get(alert.key, ""))
        if note is None:
            return False
        if self._notes.waits(note.id):
            self._notes.count(note)
            return True
        return self._silent(alert.key, at)

    def _silent(self, alert_key: str, at: datetime) -> bool:
        """Return True if an alert with this key was raised recently."""
        note = self._notes.find(self._last.get(alert_key, ""))
        if note is None:
            return False
        silence = URGENT_SILENCE if note.urgency == "high" else SILENCE
        return note.at <= at < note.at + silence

    def _remember(self, alert_key: str, note_id: str) -> None:
        self._last.pop(alert_key, None)
        self._last[alert_key] = note_id
        if len(self._last) > MAX_ALERTS:
            del self._last[next(iter(self._last))]


def _short(words: str) -> str:
    return words if len(words) <= MAX_WORDS else f"{words[: MAX_WORDS - 3]}..."
