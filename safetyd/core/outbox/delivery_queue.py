"""Delivery queues: the waiting items for one recipient on one channel, and when they are sent.

Items that become due together form a batch. Each batch has a sort:

    high    urgent requests; one message contains all due batches of this sort
    alert   urgent alerts; as `high`, but never in one message with requests
    batch   other items; one message contains all due batches of this sort
    news    items that only go with others, in a message with due batches of the sort `batch`
    alone   one item, which is sent in a separate message without limits

A party is an agent with a key, or the anonymous pool. Each party has its own batch of urgent items,
so that limits on one party do not delay those of others.

If a stored time is in the future, the wall clock was set back without a `ClockStepped` event. Such
times do not delay messages.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

import msgspec

from safetyd.core.events.notification_events import Item
from safetyd.core.outbox.pace import HOUR, UrgentLimits

MAX_OPEN: Final = 5  # maximum urgent messages of a party that are under way
MAX_URGENT: Final = 16  # remembered urgent messages of a party
# Time between messages about an agent with too many requests.
STORM_GAP: Final = timedelta(minutes=5)
MAX_SUMMARIES: Final = 6  # maximum summaries in SUMMARY_WINDOW that are sent without batching
SUMMARY_WINDOW: Final = timedelta(hours=1)
JITTER_S: Final = 30  # digests after quiet hours are spread over this time
Sort = Literal["alone", "alert", "batch", "high", "news"]
Quiet = Callable[[datetime], datetime | None]


class Timing(NamedTuple):
    """When a queue may send messages."""

    quiet: Quiet
    interval: timedelta
    paced: datetime | None  # when the recipient's patience allows the next message
    limits: UrgentLimits
    attentive: bool = True  # the recipient has no unanswered messages


class Slot(NamedTuple):
    """The batch for an item, and the time at which the batch is due."""

    batch: str
    sort: Sort
    flush_at: datetime
    agent: str = ""
    party: str = ""
    latest: datetime | None = None  # patience and limits do not delay the item beyond this time
    eager: bool = False  # agents wait; the interval between messages does not apply


class Batch(msgspec.Struct):
    """Items by the id of their request or note, in order of arrival."""

    sort: Sort
    flush_at: datetime
    items: dict[str, Item] = {}
    agent: str = ""  # set if the agent makes too many requests, so that STORM_GAP applies
    since: datetime | None = None
    party: str = ""  # the party whose limit applies; empty if not about an agent
    latest: dict[str, datetime] = {}  # the latest times of items, by request or note
    eager: bool = False  # agents wait for the answers

    @property
    def hurry(self) -> datetime | None:
        """When the batch must be sent in spite of patience and limits."""
        return min(self.latest.values(), default=None)

    def ahead(self, at: datetime) -> bool:
        """Return True if the clock was set back after the batch was created."""
        return self.since is not None and at < self.since


class Urgent(msgspec.Struct):
    """The urgent messages of one party."""

    open: list[str] = []
    sent_at: list[datetime] = []  # times of the last messages

    def over(self, at: datetime) -> bool:
        """Return True if these messages no longer count."""
        return not self.open and self.sent_at[-1] + HOUR <= at


_URGENT: Final[tuple[Sort, ...]] = ("high", "alert")
_NONE: Final = Urgent()  # for a party without urgent messages


class DeliveryQueue(msgspec.Struct):
    """The waiting items for one recipient on one channel. `rows` maps names to batches."""

    recipient: str
    channel: str
    rows: dict[str, Batch] = {}
    where: dict[str, str] = {}  # the batch of each item
    soonest: datetime | None = None  # the earliest time at which a batch is due
    newest: datetime | None = None  # when the last item was queued
    open: str = ""  # the message of sort `batch` that is under way or parked
    urgent: dict[str, Urgent] = {}  # by party
    last_at: datetime | None = None  # time of the last message of sort `batch`
    summed_at: list[datetime] = []  # times of the last summaries
    about_at: dict[str, datetime] = {}  # time of the last message about an agent, for STORM_GAP
    held_back: int = 0  # number of items below the minimum urgency since the last message

    @property
    def key(self) -> str:
        return key(self.recipient, self.channel)

    @property
    def has_urgent(self) -> bool:
        return any(batch.sort == "high" for batch in self.rows.values())

    def holds(self, ref: str) -> bool:
        return ref in self.where

    def put(self, item: Item, slot: Slot, at: datetime) -> None:
        """Queue an item in a batch. A batch is due when the first of its items is due."""
        name, sort, flush_at, agent, party, latest, eager = slot
        self.drop(item.ref)
        fresh = Batch(sort, flush_at, {}, agent, at, party, eager=eager)
        batch = self.rows.setdefault(name, fresh)
        batch.items[item.ref] = item
        batch.flush_at = min(batch.flush_at, flush_at)
        if latest is not None:
            batch.latest[item.ref] = latest
        self.where[item.ref] = name
        self.soonest = min(self.soonest or flush_at, flush_at)
        self.newest = max(self.newest or at, at)

    def waits(self, at: datetime) -> bool:
        """Return True if no batch can be due (cheap check)."""
        if self.soonest is None:
            return True
        return at < self.soonest and (self.newest is None or self.newest <= at)

    def change(self, item: Item) -> None:
        """Replace a queued item."""
        self.rows[self.where[item.ref]].items[item.ref] = item

    def drop(self, ref: str) -> None:
        name = self.where.pop(ref, None)
        if name is None:
            return
        batch = self.rows[name]
        del batch.items[ref]
        batch.latest.pop(ref, None)
        if not batch.items:
            del self.rows[name]
            if batch.flush_at == self.soonest:
                self.soonest = min((left.flush_at for left in self.rows.values()), default=None)

    def relax(self, ref: str, latest: datetime | None) -> None:
        """Change the latest time of a queued item."""
        if ref in self.where:
            times = self.rows[self.where[ref]].latest
            times.pop(ref, None)
            if latest is not None:
                times[ref] = latest

    def find(self, ref: str) -> tuple[str, Item] | None:
        """Return the name of the batch and the queued item, or None."""
        name = self.where.get(ref)
        return None if name is None else (name, self.rows[name].items[ref])

    def count(self, batches: Iterable[str] | None = None) -> int:
        """Return the number of queued items in these batches, or in all."""
        if batches is None:
            return len(self.where)
        return sum(len(self.rows[name].items) for name in batches)

    def closed(self, delivery: str) -> None:
        """Record that a message is no longer under way."""
        if self.open == delivery:
            self.open = ""
        for urgent in self.urgent.values():
            if delivery in urgent.open:
                urgent.open.remove(delivery)

    def sent(self, delivery: str, sort: Sort, at: datetime, items: Iterable[Item]) -> None:
        """Record a sent message. If it is urgent, count it for its parties."""
        if sort == "batch":
            self.open, self.last_at = delivery, at
        elif sort in {"alert", "high"}:
            self.urgent = {name: each for name, each in self.urgent.items() if not each.over(at)}
            for party in self.parties(items):
                urgent = self.urgent.setdefault(party, Urgent())
                urgent.open.append(delivery)
                urgent.sent_at = [*urgent.sent_at, at][-MAX_URGENT:]

    def urgent_of(self, party: str) -> Urgent:
        return self.urgent.get(party, _NONE)

    def urgent_at(self, party: str, at: datetime, limits: UrgentLimits) -> datetime | None:
        """Return when the next urgent message of a party may be sent, or None if no limit applies.

        A message about several parties counts once for each.
        """
        times = {sent for urgent in self.urgent.values() for sent in urgent.sent_at}
        mine = _lately(self.urgent_of(party).sent_at, at, limits)
        return _next_urgent(mine, _lately(sorted(times), at, limits), limits)

    def limited_until(
        self, message: "QueuedMessage", at: datetime, limits: UrgentLimits
    ) -> datetime | None:
        """Return when the next urgent message may be sent, if a message reaches a limit."""
        times = {sent for urgent in self.urgent.values() for sent in urgent.sent_at}
        all_ = [*_lately(sorted(times), at, limits), at]
        mine = (
            [*_lately(self.urgent_of(party).sent_at, at, limits), at]
            for party in dict.fromkeys(self.rows[name].party for name in message.batches)
        )
        found = (_next_urgent(sent_at, all_, limits) for sent_at in mine)
        return min((until for until in found if until is not None), default=None)

    def told_lately(self, agent: str, at: datetime) -> bool:
        """Return True if a message about an agent was sent within `STORM_GAP`."""
        told_at = self.about_at.get(agent)
        return told_at is not None and told_at <= at < told_at + STORM_GAP

    def told_about(self, agent: str, at: datetime) -> None:
        # If other messages extended the gap, a batch that waits for its end could wait forever.
        if storm_batch("batch", agent) in self.rows or storm_batch("high", agent) in self.rows:
            return
        self.about_at.pop(agent, None)
        self.about_at[agent] = at
        while not self.told_lately(first := next(iter(self.about_at)), at):
            del self.about_at[first]

    def sums_up(self, at: datetime) -> bool:
        """Record a summary. Return True if it must be batched because there are too many."""
        lately = [summed for summed in self.summed_at if summed <= at < summed + SUMMARY_WINDOW]
        self.summed_at = [*lately, at][-MAX_SUMMARIES:]
        return len(lately) == MAX_SUMMARIES

    def shift(self, by: timedelta) -> None:
        """Shift all times after a step of the wall clock."""
        for batch in self.rows.values():
            batch.flush_at += by
            batch.since = shifted(batch.since, by)
            batch.latest = {ref: at + by for ref, at in batch.latest.items()}
        self.soonest = shifted(self.soonest, by)
        self.newest = shifted(self.newest, by)
        self.last_at = shifted(self.last_at, by)
        for urgent in self.urgent.values():
            urgent.sent_at = [at + by for at in urgent.sent_at]
        self.summed_at = [at + by for at in self.summed_at]
        self.about_at = {agent: at + by for agent, at in self.about_at.items()}

    def parties(self, items: Iterable[Item]) -> tuple[str, ...]:
        """Return the parties of the batches that contain these items."""
        found = (self.rows[self.where[item.ref]] for item in items if item.ref in self.where)
        return tuple(dict.fromkeys(batch.party for batch in found))


class Addressed(NamedTuple):
    """A queue that gets a request: at once if it is `urgent`, or before others if it is `first`."""

    queue: DeliveryQueue
    urgent: bool
    first: bool = True


class DeliveryQueues:
    """All queues, by their keys."""

    def __init__(self, queues: dict[str, DeliveryQueue]) -> None:
        self._queues = queues

    def __len__(self) -> int:
        return len(self._queues)

    def __iter__(self) -> Iterator[DeliveryQueue]:
        return iter(self._queues.values())

    def find(self, key_: str) -> DeliveryQueue | None:
        return self._queues.get(key_)

    def of(self, keys: Iterable[str]) -> list[DeliveryQueue]:
        return [self._queues[each] for each in keys]

    def hold(self, ref: str) -> bool:
        """Return True if any queue contains this request or note."""
        return any(queue.holds(ref) for queue in self._queues.values())

    def drop(self, ref: str) -> None:
        for queue in self._queues.values():
            queue.drop(ref)

    def shift(self, by: timedelta) -> None:
        for queue in self._queues.values():
            queue.shift(by)


class QueuedMessage(NamedTuple):
    """A message that may be sent now, with all due batches of a sort or one `alone` batch."""

    sort: Sort
    batches: tuple[str, ...]
    digest: bool = False

    @property
    def name(self) -> str:
        return self.batches[0] if self.sort == "alone" else self.sort


def hold_back(queues: Iterable[DeliveryQueue]) -> None:
    """Count an item that is not queued because it is below the minimum urgency."""
    for queue in queues:
        queue.held_back += 1


def news(at: datetime) -> Slot:
    """Return the slot of an item that only goes with others."""
    return Slot("news", "news", at)


def lone_batch(ref: str) -> str:
    """Return the name of the batch for a note that is sent alone."""
    return f"alone:{ref}"


def urgent_batch(sort: Sort, party: str) -> str:
    """Return the name of the batch for the urgent requests or alerts of a party."""
    return f"{sort}/{party}"


def storm_batch(sort: Sort, agent: str) -> str:
    """Return the name of the batch for an agent with too many requests."""
    return f"{sort}:{agent}"


def key(recipient: str, channel: str) -> str:
    return f"{recipient}/{channel}"


def shifted(at: datetime | None, by: timedelta) -> datetime | None:
    return None if at is None else at + by


def messages(queue: DeliveryQueue, at: datetime, timing: Timing) -> Iterator[QueuedMessage]:
    """Yield the messages that may be sent now."""
    if queue.waits(at):
        return
    for name, batch in queue.rows.items():
        if batch.sort == "alone" and (batch.flush_at <= at or batch.ahead(at)):
            yield QueuedMessage("alone", (name,))
    for sort in _URGENT:
        if (urgent := ripe(queue, sort, at, timing)).batches:
            yield urgent
    if queue.open:
        return
    rest = ripe(queue, "batch", at, timing)
    if rest.batches and timing.quiet(at) is None:
        yield rest


def ripe(queue: DeliveryQueue, sort: Sort, at: datetime, timing: Timing) -> QueuedMessage:
    """Return the due batches of a sort. Skip parties with `MAX_OPEN` open urgent messages.

    If a batch without urgent items is due, those that only wait for patience, and news, go with it.
    """
    names, digest = list[str](), False
    for name, batch in queue.rows.items():
        # Check the time of the batch first: that is cheap, and limits can only delay it.
        if batch.sort == sort and (batch.flush_at <= at or batch.ahead(at)):
            due, deferred = _due(queue, batch, at, timing)
            crowded = sort in _URGENT and len(queue.urgent_of(batch.party).open) >= MAX_OPEN
            if due <= at and not crowded:
                names.append(name)
                digest |= deferred
    if names and sort == "batch":
        names = [name for name, batch in queue.rows.items() if _may_ride(queue, batch, at)]
    return QueuedMessage(sort, tuple(names), digest)


def due_at(queue: DeliveryQueue, at: datetime, timing: Timing) -> datetime | None:
    """Return when the next batch is due, or None if there is none. Ignore messages under way."""
    rows = (batch for batch in queue.rows.values() if batch.sort != "news")
    dues = (_due(queue, batch, at, timing)[0] for batch in rows)
    return min(dues, default=None)


def _due(queue: DeliveryQueue, batch: Batch, at: datetime, timing: Timing) -> tuple[datetime, bool]:
    """Return when a batch is due, and whether quiet hours delay it."""
    due = at if batch.ahead(at) else batch.flush_at
    if queue.told_lately(batch.agent, at):
        due = max(due, queue.about_at[batch.agent] + STORM_GAP)
    if batch.sort in _URGENT:
        allowed = queue.urgent_at(batch.party, at, timing.limits)
        return _not_before(due, allowed, batch.hurry), False
    if batch.sort == "alone":
        return due, False
    due = _not_before(due, timing.paced, batch.hurry)
    if queue.last_at is not None and queue.last_at <= at:
        apart = timedelta() if batch.eager and timing.attentive else timing.interval
        due = max(due, queue.last_at + apart)
    ends = timing.quiet(due)
    return (due, False) if ends is None else (ends + _jitter(queue, ends), True)


def _may_ride(queue: DeliveryQueue, batch: Batch, at: datetime) -> bool:
    ready = batch.flush_at <= at or batch.ahead(at)
    return batch.sort == "news" or (
        batch.sort == "batch" and ready and not queue.told_lately(batch.agent, at)
    )


def _not_before(due: datetime, allowed: datetime | None, hurry: datetime | None) -> datetime:
    """Return when a batch is due if it must wait for a time, unless it has to hurry."""
    if allowed is None:
        return due
    return max(due, allowed if hurry is None else min(allowed, hurry))


def _lately(sent_at: Iterable[datetime], at: datetime, limits: UrgentLimits) -> list[datetime]:
    return [sent for sent in sent_at if sent <= at < sent + limits.window]


def _next_urgent(
    mine: Sequence[datetime], all_: Sequence[datetime], limits: UrgentLimits
) -> datetime | None:
    """Return when the next urgent message of a party may be sent, or None if no limit applies.

    `mine` and `all_` have the times of the recent messages of the party and of all parties.
    """
    if len(mine) >= limits.party:
        return mine[-1] + limits.gap
    if len(all_) >= limits.in_all:
        return all_[-1] + (limits.gap if mine else limits.fresh_gap)
    return None


def _jitter(queue: DeliveryQueue, ends: datetime) -> timedelta:
    mixed = hashlib.sha256(f"{queue.key} {ends.timestamp()}".encode()).digest()
    return timedelta(seconds=int.from_bytes(mixed[:4], "big") % (JITTER_S + 1))
