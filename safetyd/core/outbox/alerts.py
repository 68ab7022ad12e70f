"""Queue alerts, session summaries and test messages."""

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

SILENCE: Final = timedelta(minutes=10)  # in which the same alert is not told twice
MAX_ALERTS: Final = 1_000  # whose last note is remembered
MAX_WORDS: Final = 200  # characters of what an agent says in a summary

Placed = dict[str, tuple[DeliveryQueue, Slot]]  # by the key of the queue


class Alerts:
    """Puts notes into queues and returns the queues. `last` has the last note of each alert key."""

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
        """Withdraw the alerts that an event ends; return the keys of those that were sent."""
        ends = CATALOGUE[type(event)].ends
        return frozenset(key for key in (ends(event) if ends else ()) if self.withdraw(key))

    def heard(self, event: Event, over: frozenset[str] = frozenset()) -> list[DeliveryQueue]:
        """Send the alert of an event, if it has one; an all-clear only if its alert was sent."""
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
        queues = self._put(note, self._placed(alert, note))
        if queues:
            self._remember(alert.key, note.id)
        if queues and alert.not_on:
            self._notes.of_channel(note.id)
        return queues

    def remembers(self, alert_key: str) -> bool:
        """Return True if people were told of it, and not that it is over."""
        return alert_key in self._last

    def withdraw(self, alert_key: str) -> bool:
        """Tell nobody else of what is over, and as of new if it happens again.

        Say whether somebody was told of it, or may just be.
        """
        ref = self._last.pop(alert_key, "")
        if self._notes.find(ref) is None:
            return bool(ref)  # it was told so long ago that nobody remembers
        told = any(self._reaches(delivery) for delivery in self._deliveries.about(ref))
        self._notes.end(ref)
        return told

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
        queues = self._routing.summary(transcript.agent)
        slots = {queue.key: (queue, self._slots.summary(queue, event.at)) for queue in queues}
        return self._put(note, slots)

    def announced(self, event: Announced) -> list[DeliveryQueue]:
        """Queue an announced note."""
        slot = self._slots.announced(event.note, event.at)
        queues = self._routing.announced(event)
        return self._put(event.note, {queue.key: (queue, slot) for queue in queues})

    def _placed(self, alert: Alert, note: Note) -> Placed:
        """Return where an alert goes at once or with the next batch, and where it goes later."""
        placed: Placed = {}
        for queue in self._routing.of_kinds(alert.agent, alert.later):
            placed[queue.key] = queue, self._slots.later(queue, alert, note)
        for queue in self._routing.alert(alert.agent, alert.kinds, alert.not_on):
            placed[queue.key] = queue, self._slots.alert(queue, alert, note)
        return placed

    def _put(self, note: Note, placed: Placed) -> list[DeliveryQueue]:
        """Let a note wait in its slots; return their queues."""
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
        """Return True if a worse alert was just sent, or if it is about a lost channel alert."""
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
        """Return True if an alert is known: one that waits is counted, another not told again."""
        note = self._notes.find(self._last.get(alert.key, ""))
        if note is None:
            return False
        if self._notes.waits(note.id):
            self._notes.count(note)
            return True
        return self._silent(alert.key, at)

    def _silent(self, alert_key: str, at: datetime) -> bool:
        """Return True if such an alert came so recently that it is no news."""
        note = self._notes.find(self._last.get(alert_key, ""))
        return note is not None and note.at <= at < note.at + SILENCE

    def _remember(self, alert_key: str, note_id: str) -> None:
        self._last.pop(alert_key, None)
        self._last[alert_key] = note_id
        if len(self._last) > MAX_ALERTS:
            del self._last[next(iter(self._last))]


def _short(words: str) -> str:
    return words if len(words) <= MAX_WORDS else f"{words[: MAX_WORDS - 3]}..."
