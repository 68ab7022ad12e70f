"""The numbers of a day. Those of several days can be added, in any grouping.

Amounts are whole numbers (nano-dollars, milliseconds, millionths), so that no sum depends on how
it was made.
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
    """What is added field by field; tables are added by their keys."""

    def __add__(self, other: Self) -> Self:
        fields = self.__struct_fields__
        sums = {name: added(getattr(self, name), getattr(other, name)) for name in fields}
        return msgspec.structs.replace(self, **sums)


class Most(msgspec.Struct, frozen=True):
    """The largest of several."""

    value: int = 0

    def __add__(self, other: Self) -> Self:
        return max(self, other, key=lambda most: most.value)


class Latest(msgspec.Struct, frozen=True):
    """How it was at the end; None if nothing was known of it."""

    value: int | None = None

    def __add__(self, other: Self) -> Self:
        return self if other.value is None else other


class Hold(msgspec.Struct, frozen=True):
    """A stop, safe mode, rollback or anomaly: when by the clock on the wall, by whom and why."""

    at: datetime
    by: str
    reason: str = ""
    agent: str = ""  # or project, or dependency; nothing is everybody


class LastHolds(msgspec.Struct, frozen=True):
    """The last few of many, in the order of their times."""

    holds: tuple[Hold, ...] = ()

    def __add__(self, other: Self) -> Self:
        both = sorted((*self.holds, *other.holds), key=msgspec.structs.astuple)
        return msgspec.structs.replace(self, holds=tuple(both[-LAST_HOLDS:]))


class BudgetUse(msgspec.Struct, frozen=True):
    """What was used of the budget of a UTC day, as far as that is counted."""

    spent: int = 0
    limit: int = 0  # 0 is none

    @property
    def ratio(self) -> float:
        return self.spent / self.limit if self.limit else 0.0

    def __add__(self, other: Self) -> Self:
        """Return how it stood later."""
        return other


class HourNumbers(Addable, kw_only=True):
    allowed: int = 0
    asked: int = 0
    blocked: int = 0
    cost_nano: int = 0


class Rounds(Addable, kw_only=True):
    """The rounds of one agent: an agent may say both of one round, so the larger counts."""

    dispatched: int = 0
    reported: int = 0


class Pattern(Addable, kw_only=True):
    """How often a detector found something, and in whose doing."""

    count: int = 0
    agents: dict[str, int] = {}


class Stated(Addable, kw_only=True):
    """What became of actions whose agent had stated a confidence of one bin."""

    sum_millionths: int = 0  # of what was stated, once for each outcome and answer
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


class Question(msgspec.Struct, kw_only=True):
    """A question by what it was about; requests of one kind are the same question."""

    agent: str
    type: str
    project: str | None = None
    text: str | None = None  # of a command its shape; None: more than a text was asked about
    program: str = ""  # unknown, with its verb, and all that was asked about
    rules: tuple[str, ...] = ()
    remedy: str = ""  # completes "allowed ..."
    human: bool = False  # it speaks to a person, and people are always asked
    raised: bool = False  # the agent itself called it more dangerous than its type is
    asked: int = 0
    approved: int = 0
    denied: int = 0
    unanswered: int = 0

    def __add__(self, other: Self) -> Self:
        return msgspec.structs.replace(
            self,
            asked=self.asked + other.asked,
            approved=self.approved + other.approved,
            denied=self.denied + other.denied,
            unanswered=self.unanswered + other.unanswered,
        )


class DayNumbers(Addable, kw_only=True):
    """What is counted of a day, by the layers of the safety net; then people and confidence."""

    events: int = 0
    hours: dict[int, HourNumbers] = {}  # by the clock on the wall
    # Layer 1
    rounds: dict[str, Rounds] = {}  # by agent
    cost_nano: int = 0
    bought_nano: int = 0
    budgets: dict[str, BudgetUse] = {}  # by the day of UTC, of which two can be in a day
    budgets_near: dict[str, int] = {}  # by scope
    budgets_gone: dict[str, int] = {}
    # Layer 2
    executed: int = 0  # without asking anybody
    by_grant: int = 0  # of these, because of a grant
    approved: int = 0  # executed because a person had approved it
    escalated: int = 0
    blocked: int = 0
    refused: int = 0  # before anything was decided
    restricting: dict[str, int] = {}  # by the rule that restricted most
    held_by: dict[str, int] = {}  # by the guard that did
    stated: int = 0  # proposals with a confidence
    stated_millionths: int = 0
    succeeded: int = 0
    failed: int = 0
    overdue: int = 0  # actions whose outcome nobody reported
    # Layer 3
    commits: int = 0
    commits_reported: int = 0  # by agents
    commits_failed: int = 0
    rollbacks: int = 0
    rollbacks_reported: int = 0
    rollbacks_failed: int = 0
    last_rollbacks: LastHolds = LastHolds()
    snapshots: dict[str, int] = {}  # by the day that they are of
    snapshots_missed: dict[str, int] = {}
    # Layer 4
    stops: int = 0
    last_stops: LastHolds = LastHolds()
    stopped: dict[
        str, int
    ] = {}  # by agent, "" is everybody: stops that began, less those that ended
    interventions: dict[str, int] = {}  # by what a person did
    opened: int = 0  # requests
    joined: int = 0  # proposals that asked what was asked already
    waiting: Latest = Latest()  # requests
    oldest_s: Latest = Latest()  # how long the oldest of them has waited
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
    timed: int = 0  # answers whose question is known
    took_ms: int = 0
    longest_ms: Most = Most()
    within: dict[int, int] = {}  # answers by the number of the span that they took
    told: int = 0  # messages
    lost: dict[str, int] = {}  # what a message about it did not reach anybody, by its id
    told_after_all: dict[str, int] = {}
    questions: dict[str, Question] = {}
    calibration: dict[str, dict[int, Stated]] = {}  # by agent and bin

    @property
    def iterations(self) -> int:
        return sum(max(each.dispatched, each.reported) for each in self.rounds.values())

    @property
    def budget(self) -> BudgetUse:
        """How full the budget was, of several days of UTC the fullest."""
        uses = self.budgets.values()
        return max(uses, key=lambda use: (use.ratio, use.spent, use.limit), default=BudgetUse())

    @property
    def untold(self) -> tuple[str, ...]:
        """What nobody could be told."""
        return tuple(ref for ref in self.lost if ref not in self.told_after_all)

    @property
    def missing_snapshots(self) -> tuple[str, ...]:
        return tuple(day for day in self.snapshots_missed if day not in self.snapshots)

    @property
    def outcomes(self) -> int:
        return self.succeeded + self.failed

    def stated_by(self, agent: str, confidence: float | None) -> Stated | None:
        """Return where an outcome or answer is counted, None if no confidence was stated."""
        if confidence is None:
            return None
        bins = entry(self.calibration, agent, dict[int, Stated])
        stated = entry(bins, bin_of(confidence), Stated)
        stated.sum_millionths += round(confidence * MILLION)
        return stated

    def hour(self, number: int) -> HourNumbers:
        return entry(self.hours, number, HourNumbers)


def bin_of(confidence: float) -> int:
    """Return in which tenth a confidence lies; 1.0 is in the last."""
    return min(int(confidence * BINS), BINS - 1)


def entry(table: dict[K, V], key: K, make: Callable[[], V]) -> V:
    """Return what a table has under a key, which is made if there is nothing."""
    found = table.get(key)
    if found is None:
        found = table[key] = make()
    return found


def count(table: dict[K, int], key: K, more: int = 1) -> None:
    table[key] = table.get(key, 0) + more


def shown(kind: type[Shown], numbers: msgspec.Struct, **others: object) -> Shown:
    """Return what a report shows: each field is the number of the same name, or one of `others`."""
    names = (name for name in kind.__struct_fields__ if name not in others)
    return kind(**{name: getattr(numbers, name) for name in names}, **others)


def times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


def added(one: object, other: object) -> object:
    """Return the sum of two values, of tables by their keys."""
    if isinstance(one, dict) and isinstance(other, dict):
        both = {key: added(one[key], other[key]) for key in one if key in other}
        return {**one, **other, **both}
    return one + other  # type: ignore[operator] # numbers, and what has a sum of its own
