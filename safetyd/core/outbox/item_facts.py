"""The facts behind the items of a message: urgency, age, and whether they are still relevant."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from heapq import nsmallest
from typing import Final, NamedTuple, get_args

from safetyd.core.approvals.request import Request
from safetyd.core.events.notification_events import Item, Note
from safetyd.core.messages.proposal import Urgency

NOTED: Final = frozenset({"alert", "summary", "test"})  # kinds of items that refer to a note
NOTE_LIFE: Final = timedelta(days=7)
TEST_LIFE: Final = timedelta(minutes=2)  # older test messages are not sent
_URGENCIES: Final[tuple[Urgency, ...]] = get_args(Urgency)
_RANKS: Final = {urgency: number for number, urgency in enumerate(_URGENCIES)}
_NEVER: Final = datetime.max.replace(tzinfo=UTC)
Keyless = Callable[[str], bool]  # returns True for an anonymous agent


def rank(urgency: Urgency) -> int:
    return _RANKS[urgency]


class AgentFacts(NamedTuple):
    """The agent of an item. Items of anonymous agents come after all others."""

    keyless: bool
    name: str


_NOBODY: Final = AgentFacts(keyless=True, name="")


class ItemFact(NamedTuple):
    """An item with its request or note. `about` is None if that is no longer stored."""

    item: Item
    about: Request | Note | None
    agent: AgentFacts

    @property
    def of_use(self) -> bool:
        """True if the item is relevant: a note, a pending request, or news of an expired one."""
        about = self.about
        return about is not None and (
            isinstance(about, Note) or about.pending or self.item.kind == "expired"
        )

    @property
    def urgency(self) -> Urgency:
        return _URGENCIES[0] if self.about is None else self.about.urgency

    @property
    def order(self) -> tuple[int, datetime, str]:
        """The sort key: the most urgent first, then the oldest."""
        about = self.about
        if about is None:
            return 0, _NEVER, self.item.ref
        since = about.at if isinstance(about, Note) else about.asked.at
        return -rank(about.urgency), since, self.item.ref

    def over(self, at: datetime) -> bool:
        """Return True if the deadline of a pending request has passed."""
        request = self._pending
        return request is not None and request.deadline is not None and request.deadline <= at

    def end(self, at: datetime) -> datetime | None:
        """Return when the item stops being relevant, or None if it never does."""
        request = self._pending
        if request is not None:
            return request.deadline
        return at + (TEST_LIFE if self.item.kind == "test" else NOTE_LIFE)

    @property
    def _pending(self) -> Request | None:
        about = self.about
        return about if isinstance(about, Request) and about.pending else None


class ItemFacts:
    """Looks up the requests and notes of items."""

    def __init__(
        self,
        request: Callable[[str], Request | None],
        note: Callable[[str], Note | None],
        keyless: Keyless,
    ) -> None:
        self._request = request
        self._note = note
        self._keyless = keyless

    def find(self, item: Item) -> ItemFact:
        about = self._note(item.ref) if item.kind in NOTED else self._request(item.ref)
        return ItemFact(item, about, self._agent(about))

    def _agent(self, about: Request | Note | None) -> AgentFacts:
        if about is None:
            return _NOBODY
        if isinstance(about, Request) and not about.own:
            return AgentFacts(about.asked.keyless, about.agent)
        name = about.agent or ""
        return AgentFacts(bool(name) and self._keyless(name), name)


def first(facts: Iterable[ItemFact], most: int) -> list[ItemFact]:
    """Return the items that a message lists, at most `most`.

    Agents take turns: each gets one item before any agent gets a second one. Anyone can invent
    anonymous agents, so their items come after those of agents with keys.
    """
    of_agent: dict[AgentFacts, list[ItemFact]] = {}
    for fact in facts:
        of_agent.setdefault(fact.agent, []).append(fact)
    turns = [
        (agent.keyless, turn, fact.order, fact)
        for agent, mine in of_agent.items()
        for turn, fact in enumerate(nsmallest(most, mine, key=_order))
    ]
    return [fact for *_, fact in nsmallest(most, turns, key=lambda turn: turn[:3])]


def end(facts: Iterable[ItemFact], at: datetime) -> datetime | None:
    """Return when the last of these items stops being relevant, or None if one never does."""
    ends = [fact.end(at) for fact in facts]
    known = [one for one in ends if one is not None]
    return max(known) if len(known) == len(ends) else None


def _order(fact: ItemFact) -> tuple[int, datetime, str]:
    return fact.order
