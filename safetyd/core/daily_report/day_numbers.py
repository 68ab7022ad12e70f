"""The numbers of a day. Numbers of several days can be added.

Amounts are integers (nano-dollars, milliseconds, millionths), so that sums do not depend on the
order of additions.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final, Self, TypeVar

import msgspec

MILLION: Final = 1_000_000
BINS: Final = 10
LAST_HOLDS: Final = 3

K = TypeVar("K")
V = TypeVar("V")
Shown = TypeVar("Shown", bound=msgspec.Struct)


class Addable(msgspec.Struct, kw_only=True):
    """A struct that is added field by field. Dictionaries are added by key."""

    def __add__(self, other: Self) -> Self:
        fields = self.__struct_fields__
        sums = {name: added(getattr(self, name), getattr(other, name)) for name in fields}
        return msgspec.structs.replace(self, **sums)


class Most(msgspec.Struct, frozen=True):
    """A number whose sum with another is the larger of the two."""

    value: int = 0

    def __add__(self, other: Self) -> Self:
        return max(self, other, key=lambda most: most.value)


class Latest(msgspec.Struct, frozen=True):
    """A number whose sum with a later one is the last known value. None means unknown."""

    value: int | None = None

    def __add__(self, other: Self) -> Self:
        return self if other.value is None else other


class Hold(msgspec.Struct, frozen=True):
    """A stop, safe mode, rollback or anomaly, with its local time, author and reason."""

    at: datetime
    by: str
    reason: str = ""
    agent: str = ""  # the agent, project or dependency; empty: all agents


class LastHolds(msgspec.Struct, frozen=True):
    """The last `LAST_HOLDS` holds, sorted by time."""

    holds: tuple[Hold, ...] = ()

    def __add__(self, other: Self) -> Self:
        both = sorted((*self.holds, *other.holds), key=msgspec.structs.astuple)
        return msgspec.structs.replace(self, holds=tuple(both[-LAST_HOLDS:]))


class BudgetUse(msgspec.Struct, frozen=True):
    """The spending and the limit of the budget of a UTC day."""

    spent: int = 0
    limit: int = 0  # 0: no limit

    @property
    def ratio(self) -> float:
        return self.spent / self.limit if self.limit else 0.0

    def __add__(self, other: Self) -> Self:
        """Return the later value."""
        return other


class HourNumbers(Addable, kw_only=True):
    allowed: int = 0
    asked: int = 0
    blocked: int = 0
    cost_nano: int = 0


class Rounds(Addable, kw_only=True):
    """Rounds of one agent. Both fields may count the same round, so use the larger number."""

    dispatched: int = 0
    reported: int = 0


class Pattern(Addable, kw_only=True):
    """The number of findings of a detector, in total and by agent."""

    count: int = 0
    agents: dict[str, int] = {}


class Stated(Addable, kw_only=True):
    """Counts of outcomes and answers, for actions whose stated confidence is in one bin."""

    sum_millionths: int = 0  # sum of the confidences of all outcomes and answers
    succeeded: int = 0
    failed: int = 0
    approved: int = 0
    denied: int = 0

    @property
    def count(self) -> int:
        return self.succeeded + self.failed + self.approved + self.denied

    @property
    def good(self) -> int:
        return self.succeeded + self.approved


class PersonNumbers(Addable, kw_only=True):
    """The messages to one recipient, and the answers of the operator with this name."""

    messages: int = 0
    channels: dict[str, int] = {}
    hours: dict[int, int] = {}  # by local hour
    worst_hour: Most = Most()  # most messages within 60 minutes
    at_night: int = 0  # messages in quiet hours
    could_wait: int = 0  # how many of these were not urgent
    entries: int = 0  # requests, alerts and summaries in the messages
    repeats: int = 0  # entries that the person had read shortly before
    echoes: int = 0  # messages that said only what another channel had just said
    only_reminders: int = 0
    only_summaries: int = 0
    answers: int = 0
    took_ms: int = 0


class Question(msgspec.Struct, kw_only=True):
    """A question to operators. Requests of the same kind ask the same question."""

    agent: str
    type: str
    project: str | None = None
    text: str | None = None  # the shape of the text; None if it is too long or not the whole action
    program: str = ""  # the only unknown program, with its subcommand
    rules: tuple[str, ...] = ()
    remedy: str = ""  # completes "allowed ..."
    human: bool = False  # it contacts a person, which always needs approval
    raised: bool = False  # the agent rated it as more dangerous than its type
    check: str = ""  # a check of the project that would cover the command
    asked: int = 0
    approved: int = 0
    denied: int = 0
    unanswered: int = 0
    again: int = 0  # proposed again after a denial, and denied without a new request

    def __add__(self, other: Self) -> Self:
        return msgspec.structs.replace(
            self,
            asked=self.asked + other.asked,
            approved=self.approved + other.approved,
            denied=self.denied + other.denied,
            unanswered=self.unanswered + other.unanswered,
            again=self.again + other.again,
        )


class DayNumbers(Addable, kw_only=True):
    """The numbers of a day: for each layer of the safety net, then for people."""

    events: int = 0
    hours: dict[int, HourNumbers] = {}  # by local hour
    # Layer 1
    rounds: dict[str, Rounds] = {}  # by agent
    cost_nano: int = 0
    bought_nano: int = 0
    budgets: dict[str, BudgetUse] = {}  # by UTC day; a local day can overlap two UTC days
    budgets_near: dict[str, int] = {}  # by scope
    budgets_gone: dict[str, int] = {}
    # Layer 2
    executed: int = 0  # allowed without an approval request
    by_grant: int = 0  # how many of these a grant allowed
    approved: int = 0  # executed after an operator's approval
    escalated: int = 0
    blocked: int = 0
    refused: int = 0  # before a decision
    restricting: dict[str, int] = {}  # restricted proposals, by their strictest rule
    held_by: dict[str, int] = {}  # by the guard of that rule
    stated: int = 0  # proposals with a confidence
    stated_millionths: int = 0
    succeeded: int = 0
    failed: int = 0
    overdue: int = 0  # actions without a reported outcome
    # Layer 3
    commits: int = 0
    commits_reported: int = 0  # by agents
    commits_failed: int = 0
    rollbacks: int = 0
    rollbacks_reported: int = 0
    rollbacks_failed: int = 0
    last_rollbacks: LastHolds = LastHolds()
    snapshots: dict[str, int] = {}  # by the day of the snapshot
    snapshots_missed: dict[str, int] = {}
    # Layer 4
    stops: int = 0
    last_stops: LastHolds = LastHolds()
    stopped: dict[str, int] = {}  # by agent: number of stops minus resumes; "" means all agents
    interventions: dict[str, int] = {}  # by kind of intervention
    opened: int = 0  # requests
    joined: int = 0  # number of proposals that joined a pending request
    waiting: Latest = Latest()  # pending requests
    oldest_s: Latest = Latest()  # age of the oldest pending request
    without_person: Most = Most()  # seconds
    safe_modes: int = 0
    last_safe_modes: LastHolds = LastHolds()
    # Layer 5
    anomalies: dict[str, int] = {}  # by severity
    last_anomalies: dict[str, LastHolds] = {}
    patterns: dict[str, Pattern] = {}  # by rule
    # People
    yes: int = 0
    no: int = 0
    expired: int = 0
    withdrawn: int = 0  # cancelled, or superseded by another
    timed: int = 0  # answers with a known request time
    took_ms: int = 0
    longest_ms: Most = Most()
    within: dict[int, int] = {}  # answers by the index of their time span
    told: int = 0  # messages
    lost: dict[str, int] = {}  # undelivered requests and notes, by id
    told_after_all: dict[str, int] = {}
    questions: dict[str, Question] = {}
    people: dict[str, PersonNumbers] = {}  # by recipient
    calibration: dict[str, dict[int, Stated]] = {}  # by agent and bin

    @property
    def iterations(self) -> int:
        return sum(max(each.dispatched, each.reported) for each in self.rounds.values())

    @property
    def budget(self) -> BudgetUse:
        """The use of the daily budget. With several UTC days, it is the largest use."""
        uses = self.budgets.values()
        return max(uses, key=lambda use: (use.ratio, use.spent, use.limit), default=BudgetUse())

    @property
    def untold(self) -> tuple[str, ...]:
        """The ids of requests and notes that reached nobody."""
        return tuple(ref for ref in self.lost if ref not in self.told_after_all)

    @property
    def missing_snapshots(self) -> tuple[str, ...]:
        return tuple(day for day in self.snapshots_missed if day not in self.snapshots)

    @property
    def outcomes(self) -> int:
        return self.succeeded + self.failed

    def stated_by(self, agent: str, confidence: float | None) -> Stated | None:
        """Return the entry that counts an outcome or answer, and add the confidence to its sum.

        Return None if the agent stated no confidence.
        """
        if confidence is None:
            return None
        bins = entry(self.calibration, agent, dict[int, Stated])
        stated = entry(bins, bin_of(confidence), Stated)
        stated.sum_millionths += round(confidence * MILLION)
        return stated

    def hour(self, number: int) -> HourNumbers:
        return entry(self.hours, number, HourNumbers)


def bin_of(confidence: float) -> int:
    """Return the bin of a confidence; 1.0 is in the last bin."""
    return min(int(confidence * BINS), BINS - 1)


def entry(table: dict[K, V], key: K, make: Callable[[], V]) -> V:
    """Return the value of a key. Create it with `make` if it is missing."""
    found = table.get(key)
    if found is None:
        found = table[key] = make()
    return found


def count(table: dict[K, int], key: K, more: int = 1) -> None:
    table[key] = table.get(key, 0) + more


def shown(kind: type[Shown], numbers: msgspec.Struct, **others: object) -> Shown:
    """Return a part of the report. Fields that are not in `others` are taken from `numbers`."""
    names = (name for name in kind.__struct_fields__ if name not in others)
    return kind(**{name: getattr(numbers, name) for name in names}, **others)


def times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


def added(one: object, other: object) -> object:
    """Return the sum of two values. Dictionaries are added by key."""
    if isinstance(one, dict) and isinstance(other, dict):
        both = {key: added(one[key], other[key]) for key in one if key in other}
        return {**one, **other, **both}
    return one + other  # type: ignore[operator] # numbers and types with `__add__`
