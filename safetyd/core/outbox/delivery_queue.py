"""Lanes: what waits to be told to one recipient on one channel, and when it goes out.

Things that become due together stand in one row. A message takes every row of its sort that is
ripe: all that is urgent, or the batch of all that is not. What must not wait for others, nor they
for it, stands alone: its row is a message of its own, which no limit holds back. What is urgent
stands in a row of its party, so that whoever has too many urgent messages holds up nobody else.

A time that lies in the future although it is of something that happened was taken before the wall
clock was put back, and nobody said so: it holds nothing up.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

import msgspec

from safetyd.core.events.notification_events import Item

MAX_HIGH: Final = 5  # urgent messages of a party: open ones, or that go freely in HIGH_WINDOW
HIGH_WINDOW: Final = timedelta(minutes=5)
HIGH_GAP: Final = timedelta(minutes=1)  # between urgent messages of which there are too many
STORM_GAP: Final = timedelta(minutes=5)  # between messages about an agent that asks too much
MAX_SUMMARIES: Final = 6  # that go out as they come, within SUMMARY_WINDOW
SUMMARY_WINDOW: Final = timedelta(hours=1)
JITTER_S: Final = 30  # over which the morning's digests are spread
Sort = Literal["alone", "batch", "high"]
Quiet = Callable[[datetime], datetime | None]


class Slot(NamedTuple):
    """The row of a lane in which something waits, and until when it does."""

    row: str
    sort: Sort
    flush_at: datetime
    agent: str = ""
    party: str = ""


class Batch(msgspec.Struct):
    """Things by what they are about, in the order in which they came."""

    sort: Sort
    flush_at: datetime
    items: dict[str, Item] = {}
    agent: str = ""  # that asks too much: there is a longer time between messages about it
    since: datetime | None = None
    party: str = ""  # whose urgent messages it takes; none: it is about no agent

    def ahead(self, at: datetime) -> bool:
        """Say whether the clock was put back since."""
        return self.since is not None and at < self.since


class Urgent(msgspec.Struct):
    """The urgent messages of one party."""

    open: list[str] = []
    sent_at: list[datetime] = []  # the last ones

    def calm_at(self, at: datetime) -> datetime | None:
        """Return from when on there are not too many for one more, if there were."""
        sent_at = [sent for sent in self.sent_at if sent <= at]
        if len(sent_at) < MAX_HIGH:
            return None
        return min(sent_at[0] + HIGH_WINDOW, sent_at[-1] + HIGH_GAP)

    def over(self, at: datetime) -> bool:
        """Say whether they count no more."""
        return not self.open and self.sent_at[-1] + HIGH_WINDOW <= at


_NONE: Final = Urgent()  # of a party that had none


class DeliveryQueue(msgspec.Struct):
    recipient: str
    channel: str
    rows: dict[str, Batch] = {}
    where: dict[str, str] = {}  # the row of each thing
    soonest: datetime | None = None  # that a row is due
    newest: datetime | None = None  # that something was put into a row
    open: str = ""  # the batch that is under way or parked
    urgent: dict[str, Urgent] = {}  # by party
    last_at: datetime | None = None  # of the last batch
    summed_at: list[datetime] = []  # of the last summaries that came
    about_at: dict[str, datetime] = {}  # of the last message about an agent, a storm's gap long
    held_back: int = 0  # things below the least urgency since the last message

    @property
    def key(self) -> str:
        return key(self.recipient, self.channel)

    def holds(self, ref: str) -> bool:
        return ref in self.where

    def put(self, item: Item, place: Slot, at: datetime) -> None:
        """Let a thing wait in a row, which is due no later than any of its things."""
        name, sort, flush_at, agent, party = place
        self.drop(item.ref)
        row = self.rows.setdefault(name, Batch(sort, flush_at, {}, agent, at, party))
        row.items[item.ref] = item
        row.flush_at = min(row.flush_at, flush_at)
        self.where[item.ref] = name
        self.soonest = min(self.soonest or flush_at, flush_at)
        self.newest = max(self.newest or at, at)

    def waits(self, at: datetime) -> bool:
        """Say whether no row can be due, without looking at each."""
        if self.soonest is None:
            return True
        return at < self.soonest and (self.newest is None or self.newest <= at)

    def change(self, item: Item) -> None:
        """Say something else of what waits already."""
        self.rows[self.where[item.ref]].items[item.ref] = item

    def drop(self, ref: str) -> None:
        name = self.where.pop(ref, None)
        if name is None:
            return
        row = self.rows[name]
        del row.items[ref]
        if not row.items:
            del self.rows[name]
            if row.flush_at == self.soonest:
                self.soonest = min((row.flush_at for row in self.rows.values()), default=None)

    def find(self, ref: str) -> tuple[str, Item] | None:
        """Return the row in which something waits, and what is told of it."""
        name = self.where.get(ref)
        return None if name is None else (name, self.rows[name].items[ref])

    def count(self, rows: Iterable[str] | None = None) -> int:
        """Return how many things wait, in all rows or in these."""
        return len(self.where) if rows is None else sum(len(self.rows[n].items) for n in rows)

    def closed(self, delivery: str) -> None:
        """Take note that a message is under way no longer."""
        if self.open == delivery:
            self.open = ""
        for urgent in self.urgent.values():
            if delivery in urgent.open:
                urgent.open.remove(delivery)

    def sent(self, delivery: str, sort: Sort, at: datetime, parties: Iterable[str]) -> None:
        """Take note that a message goes out, and whose it is if it is urgent."""
        if sort == "batch":
            self.open, self.last_at = delivery, at
        elif sort == "high":
            self.urgent = {name: each for name, each in self.urgent.items() if not each.over(at)}
            for party in parties:
                urgent = self.urgent.setdefault(party, Urgent())
                urgent.open.append(delivery)
                urgent.sent_at = [*urgent.sent_at, at][-MAX_HIGH:]

    def parties(self, items: Iterable[Item]) -> tuple[str, ...]:
        """Return the parties in whose rows these things wait."""
        rows = (self.rows[self.where[item.ref]] for item in items if item.ref in self.where)
        return tuple(dict.fromkeys(row.party for row in rows))

    def urgent_of(self, party: str) -> Urgent:
        return self.urgent.get(party, _NONE)

    def told_lately(self, agent: str, at: datetime) -> bool:
        """Say whether a message about an agent went out within the gap of a storm."""
        told_at = self.about_at.get(agent)
        return told_at is not None and told_at <= at < told_at + STORM_GAP

    def told_about(self, agent: str, at: datetime) -> None:
        # What waits for this time to pass would wait for ever if others moved it.
        if storm_row("batch", agent) in self.rows or storm_row("high", agent) in self.rows:
            return
        self.about_at.pop(agent, None)
        self.about_at[agent] = at
        while not self.told_lately(first := next(iter(self.about_at)), at):
            del self.about_at[first]

    def sums_up(self, at: datetime) -> bool:
        """Take note of a summary; say whether it is one too many for a message of its own."""
        lately = [summed for summed in self.summed_at if summed <= at < summed + SUMMARY_WINDOW]
        self.summed_at = [*lately, at][-MAX_SUMMARIES:]
        return len(lately) == MAX_SUMMARIES

    def shift(self, by: timedelta) -> None:
        """Go on as before although the wall clock was put back or forward."""
        for row in self.rows.values():
            row.flush_at += by
            row.since = shifted(row.since, by)
        self.soonest = shifted(self.soonest, by)
        self.newest = shifted(self.newest, by)
        self.last_at = shifted(self.last_at, by)
        for urgent in self.urgent.values():
            urgent.sent_at = [at + by for at in urgent.sent_at]
        self.summed_at = [at + by for at in self.summed_at]
        self.about_at = {agent: at + by for agent, at in self.about_at.items()}


class QueuedMessage(NamedTuple):
    """What may go out now: all rows of a sort, or one that stands alone."""

    sort: Sort
    rows: tuple[str, ...]
    digest: bool = False

    @property
    def name(self) -> str:
        return self.rows[0] if self.sort == "alone" else self.sort


def lone_row(ref: str) -> str:
    """Return the name of the row in which a note waits by itself."""
    return f"alone:{ref}"


def high_row(party: str) -> str:
    """Return the name of the row for what is urgent of a party."""
    return f"high/{party}"


def storm_row(sort: Sort, agent: str) -> str:
    """Return the name of the row for what an agent asks that asks too much."""
    return f"{sort}:{agent}"


def key(recipient: str, channel: str) -> str:
    return f"{recipient}/{channel}"


def shifted(at: datetime | None, by: timedelta) -> datetime | None:
    return None if at is None else at + by


def messages(
    lane: DeliveryQueue, at: datetime, quiet: Quiet, interval: timedelta
) -> Iterator[QueuedMessage]:
    """Yield what may go out now."""
    if lane.waits(at):
        return
    for name, row in lane.rows.items():
        if row.sort == "alone" and (row.flush_at <= at or row.ahead(at)):
            yield QueuedMessage("alone", (name,))
    high = ripe(lane, "high", at, quiet, interval)
    if high.rows:
        yield high
    if lane.open:
        return
    batch = ripe(lane, "batch", at, quiet, interval)
    if batch.rows and quiet(at) is None:
        yield batch


def ripe(
    lane: DeliveryQueue, sort: Sort, at: datetime, quiet: Quiet, interval: timedelta
) -> QueuedMessage:
    """Return the rows of a sort whose time has come; a batch under way may hold one back."""
    names, digest = list[str](), False
    for name, row in lane.rows.items():
        # What is not due by its own time need not be looked at in any other way.
        if row.sort == sort and (row.flush_at <= at or row.ahead(at)):
            due, deferred = _due(lane, row, at, quiet, interval)
            crowded = sort == "high" and len(lane.urgent_of(row.party).open) >= MAX_HIGH
            if due <= at and not crowded:
                names.append(name)
                digest |= deferred
    return QueuedMessage(sort, tuple(names), digest)


def due_at(lane: DeliveryQueue, at: datetime, quiet: Quiet, interval: timedelta) -> datetime | None:
    """Return when the next message goes out if nothing is under way; None: nothing waits."""
    dues = (_due(lane, row, at, quiet, interval)[0] for row in lane.rows.values())
    return min(dues, default=None)


def _due(
    lane: DeliveryQueue, row: Batch, at: datetime, quiet: Quiet, interval: timedelta
) -> tuple[datetime, bool]:
    """Return when a row is due, and whether it has to wait for the end of quiet hours."""
    due = at if row.ahead(at) else row.flush_at
    if lane.told_lately(row.agent, at):
        due = max(due, lane.about_at[row.agent] + STORM_GAP)
    if row.sort == "high":
        due = max(due, lane.urgent_of(row.party).calm_at(at) or due)
    if row.sort != "batch":
        return due, False
    if lane.last_at is not None and lane.last_at <= at:
        due = max(due, lane.last_at + interval)
    ends = quiet(due)
    return (due, False) if ends is None else (ends + _jitter(lane, ends), True)


def _jitter(lane: DeliveryQueue, ends: datetime) -> timedelta:
    mixed = hashlib.sha256(f"{lane.key} {ends.timestamp()}".encode()).digest()
    return timedelta(seconds=int.from_bytes(mixed[:4], "big") % (JITTER_S + 1))


MAX_ASKS: Final = 10  # requests of one agent within STORM_S that are told one by one
STORM_S: Final = 300.0
MAX_WOKEN: Final = 3  # requests of one agent that somebody is told of in one night
MAX_WOKEN_IN_ALL: Final = 10


class Night(msgspec.Struct):
    """Quiet hours of somebody, and an agent's requests that they were told of in them."""

    until: datetime
    passed: list[str] = []


class AskLimits(msgspec.Struct):
    asks: dict[str, list[float]] = {}  # when an agent last asked; who was silent longest first
    nights: dict[str, Night] = {}  # by recipient, and by recipient and agent

    def asked(self, agent: str, t: float) -> None:
        asks = self.asks
        asks[agent] = [*asks.pop(agent, []), t][-MAX_ASKS - 1 :]
        while asks[first := next(iter(asks))][-1] + STORM_S <= t:
            del asks[first]

    def storms(self, agent: str, t: float) -> bool:
        """Say whether an agent asks so much that nobody wants to read it one by one."""
        asks = self.asks.get(agent, [])
        return len(asks) > MAX_ASKS and t < asks[0] + STORM_S

    def wakes(self, name: str, request_id: str, at: datetime, until: datetime, most: int) -> bool:
        """Say whether a request is among the first in the night of this name, and take note of it.

        What was told once may be told again.
        """
        nights = self.nights
        if name not in nights or nights[name].until != until:
            for past in [known for known, night in nights.items() if night.until <= at]:
                del nights[past]
            nights[name] = Night(until)
        passed = nights[name].passed
        if request_id not in passed and len(passed) < most:
            passed.append(request_id)
        return request_id in passed
