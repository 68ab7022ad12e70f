"""Turns waiting items into messages.

A message is a `Due` event. When the event is observed, its items are removed from their queue.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from heapq import nsmallest
from typing import Final, Protocol

from safetyd.core.approvals.queue import Approvals
from safetyd.core.events.event import Event
from safetyd.core.events.notification_events import SHOWN, Due, Item, ItemKind
from safetyd.core.outbox.ask_limits import MAX_ASKS
from safetyd.core.outbox.delivery_queue import (
    DeliveryQueue,
    QueuedMessage,
    Sort,
    due_at,
    lone_batch,
    messages,
    ripe,
)
from safetyd.core.outbox.item_facts import ItemFact, ItemFacts, end, first, rank
from safetyd.core.outbox.pace import NONE
from safetyd.core.outbox.slots import Slots

MAX_PER_TICK: Final = 64
MAX_LOOKED: Final = 2_000  # maximum items of anonymous agents that one message considers

_IN_PASSING: Final[frozenset[ItemKind]] = frozenset({"expired", "summary"})
_REMINDERS: Final[frozenset[ItemKind]] = frozenset({"reminder", "last_call"})


class MessageCount(Protocol):
    """Stores the number of messages so far."""

    count: int


class Bundling:
    """Turns queued items into `Due` events.

    `known` returns True if a message about a request was delivered. A message may then count a
    reminder of the request instead of listing it.
    """

    def __init__(
        self,
        count: MessageCount,
        facts: ItemFacts,
        slots: Slots,
        approvals: Approvals,
        known: Callable[[str], bool],
    ) -> None:
        self._sent = count
        self._facts = facts
        self._slots = slots
        self._approvals = approvals
        self._known = known
        # Messages that `due` returned but that are not yet observed.
        self._promised: set[tuple[str, str]] = set()

    def due(self, cause: Event, queues: Iterable[DeliveryQueue]) -> list[Event]:
        """Return `Due` events for the messages of these queues that may be sent now."""
        dues = list[Event]()
        for queue in queues:
            timing = self._slots.timing(queue, cause.at)
            for message in messages(queue, cause.at, timing):
                promise = queue.key, message.name
                if promise in self._promised or len(dues) >= MAX_PER_TICK:
                    continue
                if facts := self._useful(queue, message, cause.at):
                    self._promised.add(promise)
                    dues.append(self._message(cause, queue, message, facts))
        return dues

    def next_at(self, queue: DeliveryQueue, at: datetime) -> datetime | None:
        """Return when the next message of a queue is due, or None if the queue is empty."""
        return due_at(queue, at, self._slots.timing(queue, at))

    def take(self, queue: DeliveryQueue, event: Due) -> tuple[Item, ...]:
        """Remove all items of a message from its queue and return them."""
        message = self._made_of(queue, event)
        self._promised.discard((queue.key, message.name))
        self._slots.sent(queue, message, event)
        queue.sent(event.delivery, message.sort, event.at, event.items)
        queue.held_back = max(0, queue.held_back - event.held_back)
        self._sent.count += 1
        items = (*event.items, *self._rest(queue, message, event))
        for item in items:
            queue.drop(item.ref)
        return items

    def forget_promises(self) -> None:
        """Forget messages that were never observed, so that `due` returns them again."""
        self._promised.clear()

    def _message(
        self, cause: Event, queue: DeliveryQueue, message: QueuedMessage, facts: list[ItemFact]
    ) -> Due:
        shown = first(facts, SHOWN)
        counted = self._counted(queue, message, facts, shown)
        urgency = max((fact.urgency for fact in shown), key=rank)
        # Urgent items that waited for the end of quiet hours do not make the digest urgent.
        calm = message.sort == "batch" and urgency == "high"
        return Due(
            at=cause.at,
            t=cause.t,
            delivery=self._name(queue, message, cause.at),
            recipient=queue.recipient,
            channel=queue.channel,
            urgency="normal" if calm else urgency,
            items=tuple(fact.item for fact in shown),
            more=len(counted),
            left=queue.count(message.batches) - len(shown) - len(counted),
            digest=message.digest,
            held_back=0 if message.sort == "alone" else queue.held_back,
            expires=end((*shown, *counted), cause.at),
            limited_until=self._slots.limited_until(queue, message, cause.at),
        )

    def _counted(
        self,
        queue: DeliveryQueue,
        message: QueuedMessage,
        facts: list[ItemFact],
        shown: Sequence[ItemFact],
    ) -> list[ItemFact]:
        """Return the items that a message counts instead of listing. Other items stay queued."""
        if len(facts) == len(shown):
            return []
        found = {fact.item.ref: fact for fact in facts if self._by_number(fact.item)}
        for agent in dict.fromkeys(fact.agent.name for fact in shown):
            if self._approvals.pending_count(agent) > MAX_ASKS:
                mine = filter(None, (queue.find(r.id) for r in self._approvals.pending(agent)))
                found |= {
                    item.ref: self._facts.find(item)
                    for batch, item in mine
                    if batch in message.batches
                }
        listed = {fact.item.ref for fact in shown}
        return [fact for ref, fact in found.items() if ref not in listed]

    def _by_number(self, item: Item) -> bool:
        """Return True if an item may be counted instead of listed."""
        return item.kind in _IN_PASSING or (item.kind in _REMINDERS and self._known(item.ref))

    def _name(self, queue: DeliveryQueue, message: QueuedMessage, at: datetime) -> str:
        count = str(self._sent.count)
        said = queue.recipient, queue.channel, at.isoformat(), count, message.name
        return "dlv_" + hashlib.sha256("\0".join(said).encode()).hexdigest()[:16]

    def _made_of(self, queue: DeliveryQueue, event: Due) -> QueuedMessage:
        """Return the queued batches that a message was made from."""
        first = event.items[0]
        batch = queue.where.get(first.ref, "")
        sort = queue.rows[batch].sort if batch else _sort_without_batch(event)
        if sort == "alone":
            return QueuedMessage("alone", (batch or lone_batch(first.ref),))
        sort = "batch" if sort == "news" else sort
        # Other messages in the same tick have changed the recipient's pace.
        timing = self._slots.timing(queue, event.at)._replace(paced=None, limits=NONE)
        return ripe(queue, sort, event.at, timing)

    def _rest(self, queue: DeliveryQueue, message: QueuedMessage, event: Due) -> list[Item]:
        """Return the items that a message counts instead of listing."""
        if not event.more:
            return []
        found = self._useful(queue, message, event.at)
        counted = self._counted(queue, message, found, [*map(self._facts.find, event.items)])
        return [fact.item for fact in nsmallest(event.more, counted, key=lambda one: one.order)]

    def _useful(self, queue: DeliveryQueue, message: QueuedMessage, at: datetime) -> list[ItemFact]:
        """Return the items that may be sent now.

        At most `MAX_LOOKED` of them are from anonymous agents.
        """
        keyed, keyless = list[ItemFact](), list[ItemFact]()
        batches = (queue.rows[name] for name in message.batches)
        for item in (item for batch in batches for item in batch.items.values()):
            fact = self._facts.find(item)
            without = fact.agent.keyless
            if without and len(keyless) == MAX_LOOKED:
                continue
            if not fact.over(at):
                (keyless if without else keyed).append(fact)
        return keyed + keyless


def _sort_without_batch(event: Due) -> Sort:
    """Return the sort of a message whose items are not queued, as in journals of older versions."""
    if event.items[0].kind == "test":
        return "alone"
    return "high" if event.urgency == "high" else "batch"
