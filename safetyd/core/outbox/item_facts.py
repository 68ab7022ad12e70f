"""What the items of messages are about: how urgent it is, since when, and whether it is over."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from heapq import nsmallest
from typing import Final, NamedTuple, get_args

from safetyd.core.approvals.request import Request
from safetyd.core.events.notification_events import Item, Note
from safetyd.core.messages.proposal import Urgency

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
    """How urgent items are, since when, whom they are about, and whether they are over."""

    def __init__(
        self,
        request: Callable[[str], Request | None],
        note: Callable[[str], Note | None],
        keyless: Keyless,
    ) -> None:
        self._request = request
        self._note = note
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

        Names without a key are free, so they take no place from agents with one; and nobody has a
        second place before everybody else has one.
        """
        of_agent: dict[AgentFacts, list[Item]] = {}
        for item in items:
            of_agent.setdefault(self.agent(item), []).append(item)
        turns = (
            (agent.keyless, turn, self.order(item), item)
            for agent, mine in of_agent.items()
            for turn, item in enumerate(nsmallest(most, mine, key=self.order))
        )
        return tuple(item for *_, item in nsmallest(most, turns))

    def keyless(self, item: Item) -> bool:
        request = self._request(item.ref)
        # Asked first, because of requests there may be very many.
        if request is not None and (request.asked.keyless or not request.own):
            return request.asked.keyless
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
            return self._note(item.ref)
        return self._request(item.ref)
