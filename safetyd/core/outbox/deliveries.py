"""Deliveries that are under way or kept, and what their items are about: how urgent, since when."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from heapq import nsmallest
from typing import Final, NamedTuple, get_args

import msgspec

from safetyd.core.approvals.queue import Approvals
from safetyd.core.approvals.request import Request
from safetyd.core.events.notification_events import DeliveryState, Due, Item, Note, NotTold, Told
from safetyd.core.messages.proposal import Urgency
from safetyd.core.outbox.delivery_queue import key

MAX_CLOSED: Final = 10_000
MAX_PAST: Final = 1_000  # notes that were told
MAX_NOTES: Final = 5_000  # that wait or were told; the oldest give way
MAX_ITEMS: Final = 1_000  # that are kept of a closed one


class Delivery(msgspec.Struct, kw_only=True):
    """One message to one recipient on one channel."""

    id: str
    recipient: str
    channel: str
    urgency: Urgency
    items: tuple[Item, ...]  # all that it tells of, first those that it shows
    shown: int
    left: int = 0  # how much waited for the next message
    digest: bool
    held_back: int
    at: datetime
    expires: datetime | None
    state: DeliveryState = "open"
    error: str = ""
    attempts: int = 0
    provider_id: str = ""
    told_at: datetime | None = None
    revoked: tuple[str, ...] = ()  # requests whose links in it are dead

    @property
    def lane(self) -> str:
        return key(self.recipient, self.channel)

    @property
    def under_way(self) -> bool:
        return self.state in {"open", "parked"}

    @property
    def arrived(self) -> bool:
        """Whether it did, as far as anybody can say."""
        return self.state in {"accepted", "delivered"}


class Kept(msgspec.Struct):
    deliveries: dict[str, Delivery] = {}  # oldest first
    notes: dict[str, Note] = {}
    past: dict[str, None] = {}  # notes that nothing under way tells of; longest first
    over: dict[str, None] = {}  # notes of what is so no longer
    of_channels: dict[str, None] = {}  # notes of channels that fail or work again


class Deliveries:
    """Finds them by their ids and by what they tell of. Closed ones are forgotten in time."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._under_way: dict[str, None] = {}
        self._about: dict[str, dict[str, None]] = {}
        for delivery in kept.deliveries.values():
            self._index(delivery)

    def find(self, id_: str) -> Delivery | None:
        return self._kept.deliveries.get(id_)

    def all(self) -> Iterator[Delivery]:
        """Yield what is kept, newest first."""
        return reversed(self._kept.deliveries.values())

    def under_way(self) -> Iterator[Delivery]:
        """Yield what is open or parked, oldest first."""
        return (self._kept.deliveries[id_] for id_ in self._under_way)

    def about(self, ref: str) -> Iterator[Delivery]:
        return (self._kept.deliveries[id_] for id_ in self._about.get(ref, ()))

    def note(self, ref: str) -> Note | None:
        return self._kept.notes.get(ref)

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
        )
        self._kept.deliveries[delivery.id] = delivery
        self._index(delivery)
        return delivery

    def told(self, delivery: Delivery, event: Told) -> None:
        delivery.state, delivery.told_at = event.state, event.at
        delivery.attempts, delivery.error = event.attempts, ""
        delivery.provider_id = event.provider_id or delivery.provider_id
        self._close(delivery)

    def not_told(self, delivery: Delivery, event: NotTold) -> None:
        delivery.state, delivery.error = event.state, event.error
        delivery.attempts = event.attempts or delivery.attempts
        if not delivery.under_way:
            self._close(delivery)

    def cancel(self, delivery: Delivery, why: str) -> None:
        delivery.state, delivery.error = "cancelled", why
        self._close(delivery)
        self.shorten(delivery)

    def shorten(self, delivery: Delivery) -> None:
        """Keep no more of a closed one than is needed, once everybody took note of its end."""
        self._unlist(delivery, delivery.items[MAX_ITEMS:])
        delivery.items = delivery.items[:MAX_ITEMS]

    def keep(self, note: Note) -> str | None:
        """Keep a note; return one that has to go for it, if any."""
        notes = self._kept.notes
        notes[note.id] = note
        if len(notes) <= MAX_NOTES:
            return None
        oldest = next(iter(notes))
        self._forget_note(oldest)
        return oldest

    def count(self, note: Note) -> None:
        """Take note that it happened once more."""
        self._kept.notes[note.id] = msgspec.structs.replace(note, count=note.count + 1)

    def end(self, ref: str) -> None:
        """Take note that it is no use telling of it any more."""
        self._kept.over[ref] = None

    def ended(self, ref: str) -> bool:
        return ref in self._kept.over

    def of_channel(self, ref: str) -> None:
        """Take note that a note is about a channel."""
        self._kept.of_channels[ref] = None

    def only_of_channels(self, delivery: Delivery) -> bool:
        """Say whether a message tells of nothing but channels."""
        return all(item.ref in self._kept.of_channels for item in delivery.items)

    def release(self, ref: str) -> None:
        """Forget a note in time, which nothing waits to tell of, once nothing is telling of it."""
        if ref not in self._kept.notes or any(d.under_way for d in self.about(ref)):
            return
        past = self._kept.past
        past.pop(ref, None)
        past[ref] = None
        if len(past) > MAX_PAST:
            self._forget_note(next(iter(past)))

    def _index(self, delivery: Delivery) -> None:
        if delivery.under_way:
            self._under_way[delivery.id] = None
        for item in delivery.items:
            self._about.setdefault(item.ref, {})[delivery.id] = None

    def _close(self, delivery: Delivery) -> None:
        self._under_way.pop(delivery.id, None)
        if len(self._kept.deliveries) - len(self._under_way) > MAX_CLOSED:
            self._forget(next(d for d in self._kept.deliveries.values() if not d.under_way))

    def _forget(self, delivery: Delivery) -> None:
        del self._kept.deliveries[delivery.id]
        self._unlist(delivery, delivery.items)

    def _unlist(self, delivery: Delivery, items: tuple[Item, ...]) -> None:
        for item in items:
            ids = self._about[item.ref]
            ids.pop(delivery.id, None)
            if not ids:
                del self._about[item.ref]

    def _forget_note(self, ref: str) -> None:
        del self._kept.notes[ref]
        for kept in (self._kept.past, self._kept.over, self._kept.of_channels):
            kept.pop(ref, None)


NOTED: Final = frozenset({"alert", "summary", "test"})  # items that are about a note
NOTE_LIFE: Final = timedelta(days=7)
TEST_LIFE: Final = timedelta(minutes=2)  # who tests looks at it now
_URGENCIES: Final[tuple[Urgency, ...]] = get_args(Urgency)
_RANKS: Final = {urgency: number for number, urgency in enumerate(_URGENCIES)}
_FORGOTTEN: Final = 0, datetime.max.replace(tzinfo=UTC)
Keyless = Callable[[str], bool]  # whether an agent has no key


def rank(urgency: Urgency) -> int:
    return _RANKS[urgency]


class AgentFacts(NamedTuple):
    """Whom an item is about. What is of agents without a key comes after all others."""

    keyless: bool
    name: str


_NOBODY: Final = AgentFacts(keyless=True, name="")


class ItemFacts:
    def __init__(self, approvals: Approvals, deliveries: Deliveries, keyless: Keyless) -> None:
        self._approvals = approvals
        self._deliveries = deliveries
        self._keyless = keyless

    def of_use(self, item: Item) -> bool:
        """Say whether it can be told, and a request still answered."""
        found = self._find(item)
        return found is not None and (
            isinstance(found, Note) or found.pending or item.kind == "expired"
        )

    def over(self, item: Item, at: datetime) -> bool:
        """Say whether it is a request whose time is over, though nobody said so yet."""
        request = self._pending(item)
        return request is not None and request.deadline is not None and request.deadline <= at

    def urgency(self, item: Item) -> Urgency:
        return _URGENCIES[self._weight(item)[0]]

    def order(self, item: Item) -> tuple[int, datetime, str]:
        """Return what sorts the most urgent first, and of equals the oldest."""
        urgent, since = self._weight(item)
        return -urgent, since, item.ref

    def first(self, items: Iterable[Item], most: int) -> tuple[Item, ...]:
        """Return what a message shows that has no room for all.

        Names without a key are free, so they take no place from agents with one; and nobody has
        a second place before everybody else has one.
        """
        of_agent: dict[AgentFacts, list[Item]] = {}
        for item in items:
            of_agent.setdefault(self.agent(item), []).append(item)
        places = (
            (agent.keyless, turn, self.order(item), item)
            for agent, mine in of_agent.items()
            for turn, item in enumerate(nsmallest(most, mine, key=self.order))
        )
        return tuple(item for *_, item in nsmallest(most, places))

    def keyless(self, item: Item) -> bool:
        request = self._approvals.find(item.ref)
        # Asked first, because of those there may be very many.
        if request is not None and request.asked.keyless:
            return True
        return self.agent(item).keyless

    def agent(self, item: Item) -> AgentFacts:
        found = self._find(item)
        if found is None:
            return _NOBODY
        if isinstance(found, Request) and not found.own:
            return AgentFacts(found.asked.keyless, found.agent)
        name = found.agent or ""
        return AgentFacts(bool(name) and self._keyless(name), name)

    def end(self, items: Iterable[Item], at: datetime) -> datetime | None:
        """Return when there is nothing more to tell of any of these; None: never."""
        ends = [self._end(item, at) for item in items]
        known = [end for end in ends if end is not None]
        return max(known) if len(known) == len(ends) else None

    def _end(self, item: Item, at: datetime) -> datetime | None:
        request = self._pending(item)
        if request is not None:
            return request.deadline
        return at + (TEST_LIFE if item.kind == "test" else NOTE_LIFE)

    def _weight(self, item: Item) -> tuple[int, datetime]:
        found = self._find(item)
        if found is None:
            return _FORGOTTEN
        since = found.at if isinstance(found, Note) else found.asked.at
        return rank(found.urgency), since

    def _pending(self, item: Item) -> Request | None:
        found = self._find(item)
        return found if isinstance(found, Request) and found.pending else None

    def _find(self, item: Item) -> Request | Note | None:
        if item.kind in NOTED:
            return self._deliveries.note(item.ref)
        return self._approvals.find(item.ref)
