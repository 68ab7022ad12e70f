"""The post room: what waits in lanes becomes messages, and what became of those is kept.

It does not know why something is to be told. A message leaves as a `Due`, and only when that is
observed does what it tells of leave its lane.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from heapq import nsmallest
from typing import Final

import msgspec

from safetyd.core import recipients as quiet
from safetyd.core.actor import Actor
from safetyd.core.approvals.queue import Approvals
from safetyd.core.events.daemon_events import ClockStepped
from safetyd.core.events.event import Event
from safetyd.core.events.notification_events import (
    SHOWN,
    Due,
    Item,
    ItemKind,
    LinkRevoked,
    Note,
    Told,
    Unparked,
)
from safetyd.core.outbox.deliveries import Deliveries, Delivery, ItemFacts, Kept, Keyless, rank
from safetyd.core.outbox.delivery_queue import (
    MAX_ASKS,
    AskLimits,
    DeliveryQueue,
    QueuedMessage,
    Quiet,
    Sort,
    due_at,
    key,
    lone_row,
    messages,
    ripe,
)
from safetyd.core.outbox.escalation import EscalationStep
from safetyd.core.outbox.routing import Routing
from safetyd.core.recipients import QuietHours, TellingConfig

MAX_PER_TICK: Final = 64
MAX_LOOKED: Final = 2_000  # things of agents without a key, when a message is made

_NEVER: Final = QuietHours(start="00:00", end="00:00")
_IN_PASSING: Final[frozenset[ItemKind]] = frozenset({"expired", "summary"})


class ReminderState(msgspec.Struct, array_like=True):
    """How far people have been told of a request that is pending."""

    tell_by: datetime | None  # somebody should know by then; None: a person put it off
    next: EscalationStep | None = None
    step: int = 0
    last_at: datetime | None = None  # of the last message about it
    told: bool = False
    refused: list[str] = []  # lanes that did not take it
    stepped_s: float = 0.0  # by which the wall clock was put forward since it was asked


class Cause(msgspec.Struct, array_like=True):
    """Why things stand still: the epoch of a stop, and the alert that tells of it."""

    epoch: int
    key: str


class Standstill(msgspec.Struct):
    """Stops of one agent, or of all, of which people are told as of one."""

    causes: dict[str, Cause] = {}  # by source
    told: bool = False  # of a cause that is over
    ended: str = ""  # by whom and why, as far as a person ended it


class OutboxState(msgspec.Struct):
    lanes: dict[str, DeliveryQueue] = {}
    cases: dict[str, ReminderState] = {}  # by request, oldest first
    kept: Kept = msgspec.field(default_factory=Kept)
    alerts: dict[str, str] = {}  # the last note of each sort of alert
    demands: AskLimits = msgspec.field(default_factory=AskLimits)
    stops: dict[str, Standstill] = {}  # by agent; of all: "*"
    down: list[str] = []  # channels
    count: int = 0  # messages so far


class Bundling(Actor):
    _state: OutboxState

    def __init__(self, config: TellingConfig, approvals: Approvals, keyless: Keyless) -> None:
        self._config = config
        self._approvals = approvals
        self._keyless = keyless
        self._routes = Routing(config)
        self._hours = {recipient.name: recipient.quiet for recipient in config.recipients}
        self._interval = timedelta(seconds=config.batch_interval_s)
        self._take_on(OutboxState())

    def open(self) -> Iterator[Delivery]:
        """Yield what is to be sent, or is being sent, oldest first."""
        return (delivery for delivery in self._deliveries.under_way() if delivery.state == "open")

    def deliveries(self, state: str | None = None) -> Iterator[Delivery]:
        """Yield what is kept, or what of it is in a state, newest first."""
        return (each for each in self._deliveries.all() if state is None or each.state == state)

    def find(self, delivery: str) -> Delivery | None:
        return self._deliveries.find(delivery)

    def note(self, ref: str) -> Note | None:
        return self._deliveries.note(ref)

    def pending(self, delivery: Delivery) -> tuple[Item, ...]:
        """Return what a message should still tell of, were it sent now."""
        items = (item for item in delivery.items if not self._deliveries.ended(item.ref))
        return tuple(item for item in items if self._subjects.of_use(item))

    def waiting(self, at: datetime) -> Iterator[tuple[str, str, int, datetime]]:
        """Yield each recipient and channel for whom something waits, how much, and until when."""
        for lane in self._state.lanes.values():
            due = due_at(lane, at, self._quiet(lane), self._interval)
            if due is not None:
                yield lane.recipient, lane.channel, lane.count(), due

    def quiet_until(self, recipient: str, at: datetime) -> datetime | None:
        """Return when the quiet hours are over that somebody has now, if they have any."""
        return quiet.quiet_until(self._hours.get(recipient, _NEVER), at)

    def told(self, request_id: str) -> tuple[Delivery, ...]:
        """Return the kept messages about a request, oldest first, whatever became of them."""
        return tuple(self._deliveries.about(request_id))

    def revoked(self, delivery: str, request_id: str) -> bool:
        """Say whether a message's link is dead; so is that of a message nobody remembers."""
        found = self.find(delivery)
        return found is None or request_id in found.revoked

    @property
    def idle(self) -> bool:
        """Whether there is nobody to tell."""
        return not self._state.lanes

    def load(self, saved: bytes) -> None:
        super().load(saved)
        self._take_on(self._state)

    def _take_on(self, state: OutboxState) -> None:
        """Go on from a state, without what waits for whom nobody can reach any more."""
        before = state.lanes
        routes = {key(*route): route for route in self._routes.all()}
        state.lanes = {name: before.get(name) or DeliveryQueue(*routes[name]) for name in routes}
        self._state = state
        self._deliveries = Deliveries(state.kept)
        self._subjects = ItemFacts(self._approvals, self._deliveries, self._keyless)
        self._promised: set[tuple[str, str]] = set()  # returned, and not yet observed
        for lane in (lane for name, lane in before.items() if name not in routes):
            self._release(lane.where)
        for delivery in tuple(self._deliveries.under_way()):
            if delivery.lane not in routes:
                self._deliveries.cancel(delivery, "nobody is told on this channel any more")
                self._release(item.ref for item in delivery.items)

    def _due(self, cause: Event, lanes: Iterable[DeliveryQueue]) -> list[Event]:
        """Return the messages of these lanes that may go out now."""
        dues = list[Event]()
        for lane in lanes:
            for message in messages(lane, cause.at, self._quiet(lane), self._interval):
                promise = lane.key, message.name
                if promise in self._promised or len(dues) >= MAX_PER_TICK:
                    continue
                if items := self._useful(lane, message, cause.at):
                    self._promised.add(promise)
                    dues.append(self._message(cause, lane, message, items))
        return dues

    def _message(
        self, cause: Event, lane: DeliveryQueue, message: QueuedMessage, items: list[Item]
    ) -> Due:
        shown = self._subjects.first(items, SHOWN)
        counted = self._counted(lane, message, items, shown)
        urgency = max(map(self._subjects.urgency, shown), key=rank)
        # Urgent things that had to wait for the morning do not make the whole digest urgent.
        calm = message.sort == "batch" and urgency == "high"
        return Due(
            at=cause.at,
            t=cause.t,
            delivery=self._name(lane, message, cause.at),
            recipient=lane.recipient,
            channel=lane.channel,
            urgency="normal" if calm else urgency,
            items=shown,
            more=len(counted),
            left=lane.count(message.rows) - len(shown) - len(counted),
            digest=message.digest,
            held_back=0 if message.sort == "alone" else lane.held_back,
            expires=self._subjects.end((*shown, *counted), cause.at),
        )

    def _counted(
        self,
        lane: DeliveryQueue,
        message: QueuedMessage,
        items: list[Item],
        shown: tuple[Item, ...],
    ) -> list[Item]:
        """Return what else a message tells of, by number; all the rest waits for another."""
        if len(items) == len(shown):
            return []
        found = {item.ref: item for item in items if self._by_number(item)}
        for agent in dict.fromkeys(self._subjects.agent(item).name for item in shown):
            if self._approvals.pending_count(agent) > MAX_ASKS:
                mine = filter(None, (lane.find(r.id) for r in self._approvals.pending(agent)))
                found |= {item.ref: item for row, item in mine if row in message.rows}
        listed = {item.ref for item in shown}
        return [item for item in found.values() if item.ref not in listed]

    def _by_number(self, item: Item) -> bool:
        """Say whether it is enough that people hear of its number."""
        return item.kind in _IN_PASSING

    def _name(self, lane: DeliveryQueue, message: QueuedMessage, at: datetime) -> str:
        said = lane.recipient, lane.channel, at.isoformat(), str(self._state.count), message.name
        return "dlv_" + hashlib.sha256("\0".join(said).encode()).hexdigest()[:16]

    def _sent(self, event: Due) -> Delivery | None:
        """Take what a message tells of out of its lane; None: nobody knows the lane any more."""
        lane = self._state.lanes.get(key(event.recipient, event.channel))
        if lane is None:
            return None
        message = self._made_of(lane, event)
        self._promised.discard((lane.key, message.name))
        parties = lane.parties(event.items)
        delivery = self._deliveries.add(event, self._take(lane, message, event))
        lane.sent(delivery.id, message.sort, event.at, parties)
        lane.held_back = max(0, lane.held_back - event.held_back)
        self._state.count += 1
        return delivery

    def _made_of(self, lane: DeliveryQueue, event: Due) -> QueuedMessage:
        """Return the rows that a message was made of, as far as they still wait."""
        first = event.items[0]
        row = lane.where.get(first.ref, "")
        if lane.rows[row].sort == "alone" if row else first.kind == "test":
            return QueuedMessage("alone", (row or lone_row(first.ref),))
        sort: Sort = "high" if event.urgency == "high" else "batch"
        return ripe(lane, sort, event.at, self._quiet(lane), self._interval)

    def _take(self, lane: DeliveryQueue, message: QueuedMessage, event: Due) -> tuple[Item, ...]:
        """Take out what is listed, and of the rest as much as is told by number."""
        rest = list[Item]()
        if event.more:
            found = self._useful(lane, message, event.at)
            rest = self._counted(lane, message, found, event.items)
            rest = nsmallest(event.more, rest, key=self._subjects.order)
        items = (*event.items, *rest)
        for item in items:
            lane.drop(item.ref)
        return items

    def _take_told(self, event: Told) -> Delivery | None:
        """Keep that a message was told; None: it was over before."""
        delivery = self.find(event.delivery)
        if delivery is None or delivery.state not in {"open", "parked", "accepted"}:
            return None
        self._deliveries.told(delivery, event)
        return delivery

    def _closed(self, event: Event, delivery: Delivery) -> Sequence[Event]:
        """Let what came later go out."""
        refs = [item.ref for item in delivery.items]
        self._deliveries.shorten(delivery)
        lane = self._state.lanes.get(delivery.lane)
        if lane is None:
            return ()
        lane.closed(delivery.id)
        self._release(refs)
        return self._due(event, (lane,))

    def _unparked(self, event: Unparked) -> None:
        for id_ in event.deliveries:
            delivery = self.find(id_)
            if delivery is not None and delivery.state == "parked":
                delivery.state = "open"

    def _link_revoked(self, event: LinkRevoked) -> None:
        delivery = self.find(event.delivery)
        if delivery is not None:
            delivery.revoked = (*delivery.revoked, event.request_id)

    def _stepped(self, event: ClockStepped) -> None:
        for lane in self._state.lanes.values():
            lane.shift(timedelta(seconds=event.seconds))

    def _holds(self, ref: str) -> bool:
        return any(lane.holds(ref) for lane in self._state.lanes.values())

    def _drop(self, ref: str) -> None:
        for lane in self._state.lanes.values():
            lane.drop(ref)

    def _release(self, refs: Iterable[str]) -> None:
        for ref in refs:
            if self.note(ref) is not None and not self._holds(ref):
                self._deliveries.release(ref)

    def _useful(self, lane: DeliveryQueue, message: QueuedMessage, at: datetime) -> list[Item]:
        """Return what may be told now; of agents without a key, what came first of very much."""
        keyed, keyless = list[Item](), list[Item]()
        for item in (item for name in message.rows for item in lane.rows[name].items.values()):
            without = self._subjects.keyless(item)
            if without and len(keyless) == MAX_LOOKED:
                continue
            if not self._subjects.over(item, at):
                (keyless if without else keyed).append(item)
        return keyed + keyless

    def _quiet(self, lane: DeliveryQueue) -> Quiet:
        return lambda at: self.quiet_until(lane.recipient, at)
