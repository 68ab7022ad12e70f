"""Open and past deliveries, and the notes (alerts, summaries, tests) that they contain."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Final

import msgspec

from safetyd.core.events.notification_events import (
    DeliveryState,
    Due,
    Item,
    LinkOpened,
    LinkRevoked,
    Note,
    NotTold,
    Told,
    Unparked,
)
from safetyd.core.messages.proposal import Urgency
from safetyd.core.outbox.delivery_queue import DeliveryQueues, key

MAX_CLOSED: Final = 10_000
MAX_PAST: Final = 1_000  # maximum notes that are neither queued nor in a delivery under way
MAX_NOTES: Final = 5_000  # maximum notes in total; the oldest are dropped first
MAX_ITEMS: Final = 1_000  # maximum stored items of a closed delivery
LOST: Final = frozenset({"dead", "undelivered"})  # states of lost messages


class Delivery(msgspec.Struct, kw_only=True):
    """One message to one recipient on one channel."""

    id: str
    recipient: str
    channel: str
    urgency: Urgency
    items: tuple[Item, ...]  # listed items first, then counted ones
    shown: int  # number of listed items
    left: int = 0  # number of items that wait for the next message
    digest: bool
    held_back: int
    at: datetime
    expires: datetime | None
    state: DeliveryState = "open"
    error: str = ""
    attempts: int = 0
    provider_id: str = ""
    told_at: datetime | None = None
    revoked: tuple[str, ...] = ()  # requests whose links in this message are revoked
    limited_until: datetime | None = None
    opened: bool = False  # a link in it was opened

    @property
    def queue(self) -> str:
        """The key of the queue that the message came from."""
        return key(self.recipient, self.channel)

    @property
    def under_way(self) -> bool:
        return self.state in {"open", "parked"}

    @property
    def arrived(self) -> bool:
        """True if the channel accepted or delivered the message."""
        return self.state in {"accepted", "delivered"}


class Kept(msgspec.Struct):
    """The stored deliveries, and the notes that they contain or will contain."""

    deliveries: dict[str, Delivery] = {}  # oldest first
    notes: dict[str, Note] = {}
    # Notes that are neither queued nor in a delivery under way, oldest first.
    past: dict[str, None] = {}
    over: dict[str, None] = {}  # notes that are no longer relevant
    of_channels: dict[str, None] = {}  # notes about channels that fail or work again


class Deliveries:
    """Finds deliveries by id, request or note. Stores at most `MAX_CLOSED` closed ones."""

    def __init__(self, deliveries: dict[str, Delivery]) -> None:
        self._deliveries = deliveries
        self._under_way: dict[str, None] = {}
        self._about: dict[str, dict[str, None]] = {}
        for delivery in deliveries.values():
            self._index(delivery)

    def find(self, id_: str) -> Delivery | None:
        return self._deliveries.get(id_)

    def all(self) -> Iterator[Delivery]:
        """Yield stored deliveries, newest first."""
        return reversed(self._deliveries.values())

    def under_way(self) -> Iterator[Delivery]:
        """Yield open and parked deliveries, oldest first."""
        return (self._deliveries[id_] for id_ in self._under_way)

    def about(self, ref: str) -> Iterator[Delivery]:
        return (self._deliveries[id_] for id_ in self._about.get(ref, ()))

    def telling(self, ref: str) -> bool:
        """Return True if a delivery under way contains this request or note."""
        return any(delivery.under_way for delivery in self.about(ref))

    def add(self, event: Due, items: tuple[Item, ...]) -> Delivery:
        delivery = Delivery(
            id=event.delivery,
            recipient=event.recipient,
            channel=event.channel,
            urgency=event.urgency,
            items=items,
            shown=len(event.items),
            left=event.left,
            digest=event.digest,
            held_back=event.held_back,
            at=event.at,
            expires=event.expires,
            limited_until=event.limited_until,
        )
        self._deliveries[delivery.id] = delivery
        self._index(delivery)
        return delivery

    def told(self, event: Told) -> Delivery | None:
        """Record that a message was accepted or delivered. Return None if it was already closed."""
        delivery = self.find(event.delivery)
        if delivery is None or delivery.state not in {"open", "parked", "accepted"}:
            return None
        delivery.state, delivery.told_at = event.state, event.at
        delivery.attempts, delivery.error = event.attempts, ""
        delivery.provider_id = event.provider_id or delivery.provider_id
        self._close(delivery)
        return delivery

    def not_told(self, event: NotTold) -> Delivery | None:
        """Record that a message was not delivered. Return None if it was already closed."""
        delivery = self.find(event.delivery)
        if delivery is None or not (delivery.under_way or _lost_late(delivery, event)):
            return None
        delivery.state, delivery.error = event.state, event.error
        delivery.attempts = event.attempts or delivery.attempts
        if not delivery.under_way:
            self._close(delivery)
        return delivery

    def unparked(self, event: Unparked) -> None:
        for id_ in event.deliveries:
            delivery = self.find(id_)
            if delivery is not None and delivery.state == "parked":
                delivery.state = "open"

    def opened(self, event: LinkOpened) -> None:
        if (delivery := self.find(event.delivery)) is not None:
            delivery.opened = True

    def link_revoked(self, event: LinkRevoked) -> None:
        delivery = self.find(event.delivery)
        if delivery is not None:
            delivery.revoked = (*delivery.revoked, event.request_id)

    def cancel(self, delivery: Delivery, why: str) -> None:
        delivery.state, delivery.error = "cancelled", why
        self._close(delivery)
        self.shorten(delivery)

    def shorten(self, delivery: Delivery) -> None:
        """Drop all but the first `MAX_ITEMS` items of a closed delivery."""
        self._unlist(delivery, delivery.items[MAX_ITEMS:])
        delivery.items = delivery.items[:MAX_ITEMS]

    def _index(self, delivery: Delivery) -> None:
        if delivery.under_way:
            self._under_way[delivery.id] = None
        for item in delivery.items:
            self._about.setdefault(item.ref, {})[delivery.id] = None

    def _close(self, delivery: Delivery) -> None:
        self._under_way.pop(delivery.id, None)
        if len(self._deliveries) - len(self._under_way) > MAX_CLOSED:
            self._forget(next(d for d in self._deliveries.values() if not d.under_way))

    def _forget(self, delivery: Delivery) -> None:
        del self._deliveries[delivery.id]
        self._unlist(delivery, delivery.items)

    def _unlist(self, delivery: Delivery, items: tuple[Item, ...]) -> None:
        for item in items:
            ids = self._about[item.ref]
            ids.pop(delivery.id, None)
            if not ids:
                del self._about[item.ref]


def _lost_late(delivery: Delivery, event: NotTold) -> bool:
    return event.state in LOST and delivery.state == "accepted"


class Notes:
    """Stores notes. `telling` returns True if a delivery under way contains the note."""

    def __init__(self, kept: Kept, queues: DeliveryQueues, telling: Callable[[str], bool]) -> None:
        self._kept = kept
        self._queues = queues
        self._telling = telling

    def find(self, ref: str) -> Note | None:
        return self._kept.notes.get(ref)

    def keep(self, note: Note) -> None:
        """Store a note. If there are too many, drop the oldest, even if it is still queued."""
        notes = self._kept.notes
        notes[note.id] = note
        if len(notes) > MAX_NOTES:
            oldest = next(iter(notes))
            self._forget(oldest)
            self._queues.drop(oldest)

    def waits(self, ref: str) -> bool:
        return self._queues.hold(ref)

    def count(self, note: Note) -> None:
        """Record in a note that its alert was repeated."""
        self._kept.notes[note.id] = msgspec.structs.replace(note, count=note.count + 1)

    def end(self, ref: str) -> None:
        """Record that a note is no longer relevant, and remove it from the queues."""
        self._queues.drop(ref)
        self._kept.over[ref] = None
        self.release((ref,))

    def ended(self, ref: str) -> bool:
        return ref in self._kept.over

    def of_channel(self, ref: str) -> None:
        """Record that a note is about a channel."""
        self._kept.of_channels[ref] = None

    def only_of_channels(self, delivery: Delivery) -> bool:
        """Return True if all items of a message are notes about channels."""
        return all(item.ref in self._kept.of_channels for item in delivery.items)

    def release(self, refs: Iterable[str]) -> None:
        """Mark notes as past if they are neither queued nor in a delivery under way."""
        for ref in refs:
            if ref in self._kept.notes and not (self.waits(ref) or self._telling(ref)):
                self._pass(ref)

    def _pass(self, ref: str) -> None:
        past = self._kept.past
        past.pop(ref, None)
        past[ref] = None
        if len(past) > MAX_PAST:
            self._forget(next(iter(past)))

    def _forget(self, ref: str) -> None:
        del self._kept.notes[ref]
        for kept in (self._kept.past, self._kept.over, self._kept.of_channels):
            kept.pop(ref, None)
