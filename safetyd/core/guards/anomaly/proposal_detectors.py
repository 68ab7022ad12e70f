"""Detectors for proposals that repeat, are all of one type, come too fast or have a wrong time.

They check a history that ends with the current proposal. They run for every proposal, so `until_t`
is a cheap check of the condition, and `found` is called only to describe a condition that holds.
"""

import math
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta

from safetyd.core.events.event import Level
from safetyd.core.guards.anomaly.findings import NEVER, RANK, Detector, FoundCondition
from safetyd.core.guards.anomaly.measures import Measure, ages
from safetyd.core.messages.verdict import after

MAX_ACTIONS: Final = 64  # number of different actions whose times are stored
# Patient types: an agent may repeat them often without being in a loop.
PATIENT: Final = frozenset({"scroll", "key", "wait"})

Count = Annotated[int, Meta(ge=1, le=1000)]
Seconds = Annotated[float, Meta(gt=0)]


class ProposalHistory(msgspec.Struct):
    """The recent proposals of one agent. Patient types and reads are counted separately."""

    t: float = 0.0  # time of the last proposal; `type` is its type
    type: str = ""
    # Proposals of types that are not patient.
    last: bytes = b""  # the last action's key
    in_a_row: int = 0  # how many times in a row it was proposed
    times: dict[bytes, list[float]] = {}  # last proposals of each action, oldest first
    # Acts: proposals that are not read-only.
    acts: int = 0
    act_t: float = 0.0  # time of the last act; the next two fields are its type and key
    act_type: str = ""
    act: bytes = b""
    one_type: int = 0  # how many acts in a row had the same type
    one_action: int = 0
    rapid: int = 0  # how many acts in a row followed each other quickly

    def add(self, key: bytes, times: int) -> None:
        """Record a proposal, made at `self.t`, of a type that is not patient.

        At most `times` proposals of each action are stored.
        """
        if key == self.last:
            self.in_a_row += 1
        else:
            self.last, self.in_a_row = key, 1
            self.times[key] = self.times.pop(key) if key in self.times else self._room()
        known = self.times[key]
        if len(known) >= times:
            del known[: len(known) + 1 - times]
        known.append(self.t)

    def act_on(self, key: bytes, gap_s: float) -> None:
        """Record an act at `self.t`."""
        self.acts += 1
        self.one_type = self.one_type + 1 if self.type == self.act_type else 1
        self.one_action = self.one_action + 1 if key == self.act else 1
        self.rapid = self.rapid + 1 if self.t - self.act_t < gap_s else 1
        self.act_t, self.act_type, self.act = self.t, self.type, key

    def log(self, t: float, kind: str) -> None:
        """Record an act that was reported without a proposal. When it was made is not known."""
        self.acts += 1
        self.one_type = self.one_type + 1 if kind == self.act_type else 1
        self.t, self.act_type, self.act, self.one_action = t, kind, b"", 1

    def copy(self) -> "ProposalHistory":
        times = {key: list(known) for key, known in self.times.items()}
        return msgspec.structs.replace(self, times=times)

    def _room(self) -> list[float]:
        if len(self.times) >= MAX_ACTIONS:
            del self.times[next(iter(self.times))]
        return []


class RapidIdentical(Detector, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: ClassVar[str] = "rapid_identical"

    count: Annotated[int, Meta(ge=2, le=100)] = 5
    within_s: Seconds = 10.0

    def until_t(self, history: ProposalHistory, _t: float) -> float:
        times = history.times[history.last]
        return times[-self.count] + self.within_s if len(times) >= self.count else NEVER

    def found(self, history: ProposalHistory, t: float) -> FoundCondition:
        message = f"{history.type} {self.count} times in {self.within_s:g} s"
        until_t = self.until_t(history, t)
        remedy = after(until_t - t)
        return FoundCondition(
            self.severity,
            f"Rapid identical requests: {message}",
            until_t,
            remedy,
            f"fewer than {self.count} in {self.within_s:g} s",
        )

    def measure(self, history: ProposalHistory, t: float) -> Measure:
        """Return how often the last action was proposed recently."""
        times = history.times.get(history.last, [])
        recent = sum(t - time < self.within_s for time in times)
        return Measure(
            detector=self.id,
            unit="times",
            now=recent,
            most=self.count - 1,
            values=(1.0,) * len(times),
            ages_s=ages(times, t),
        )


class RepeatedAction(Detector, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: ClassVar[str] = "repeated_action"

    max: Count = 5

    def until_t(self, history: ProposalHistory, _t: float) -> float:
        return math.inf if history.in_a_row > self.max else NEVER

    def found(self, history: ProposalHistory, _t: float) -> FoundCondition:
        message = f"Repeated action: {history.type} {history.in_a_row} times"
        usual = f"at most {self.max} times in a row"
        return FoundCondition(
            self.severity, message, remedy="after a different action", usual=usual
        )

    def measure(self, history: ProposalHistory, _t: float) -> Measure:
        """Return how many times in a row the last action was proposed."""
        return Measure(detector=self.id, unit="times", now=history.in_a_row, most=self.max)


class LoopActionType(Detector, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The last acts all have one type."""

    id: ClassVar[str] = "loop_action_type"

    severity: Level = "low"
    same_action_severity: Level = "medium"  # minimum severity if the acts are all the same action
    last: Count = 10
    at_least: Count = 5

    @property
    def most_severe(self) -> Level:
        return max(self.severity, self.same_action_severity, key=RANK.__getitem__)

    def until_t(self, history: ProposalHistory, _t: float) -> float:
        alike = history.one_type
        loops = alike >= self.at_least and (alike >= self.last or alike == history.acts)
        return math.inf if loops else NEVER

    def found(self, history: ProposalHistory, _t: float) -> FoundCondition:
        looked_at = min(history.acts, self.last)
        severity, what = self.severity, f"{looked_at} different actions of one type in a row"
        if history.one_action >= looked_at:
            severity, what = self.most_severe, f"same action repeated {looked_at} times"
        message = f"Potential loop detected: {what}"
        usual = f"fewer than {self.last} actions in a row of one type"
        remedy = "after an action of another type"
        return FoundCondition(severity, message, remedy=remedy, usual=usual)

    def measure(self, history: ProposalHistory, _t: float) -> Measure:
        """Return how many acts in a row were of one type."""
        return Measure(detector=self.id, unit="actions", now=history.one_type, most=self.last - 1)


class RapidActions(Detector, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The last acts all followed each other quickly."""

    id: ClassVar[str] = "rapid_actions"

    severity: Level = "low"
    last: Count = 10
    at_least: Count = 5
    gap_s: Seconds = 5.0

    def until_t(self, history: ProposalHistory, _t: float) -> float:
        soon = history.rapid
        rapid = soon >= self.at_least and (soon >= self.last or soon == history.acts)
        return math.inf if rapid else NEVER

    def found(self, _history: ProposalHistory, _t: float) -> FoundCondition:
        remedy = f"{self.gap_s:g} s after the previous action"
        message = "Unusually rapid actions detected"
        usual = f"{self.gap_s:g} s between some of {self.last} actions"
        return FoundCondition(self.severity, message, remedy=remedy, usual=usual)

    def measure(self, history: ProposalHistory, _t: float) -> Measure:
        """Return how many acts in a row followed each other quickly."""
        return Measure(detector=self.id, unit="actions", now=history.rapid, most=self.last - 1)


class TimeSkew(Detector, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: ClassVar[str] = "time_skew"

    severity: Level = "low"
    max_s: Seconds = 30.0

    def found(self, skew_s: float) -> FoundCondition | None:
        if abs(skew_s) <= self.max_s:
            return None
        remedy = f"with an `at` within {self.max_s:g} s of the daemon's clock"
        message, usual = f"Time skew: {abs(skew_s):.0f} s", f"at most {self.max_s:g} s"
        return FoundCondition(self.severity, message, remedy=remedy, usual=usual)


def skew_s(theirs: datetime, ours: datetime) -> float:
    """Return the difference between the proposal's clock and the daemon's, in seconds."""
    if theirs.tzinfo is None:
        theirs = theirs.replace(tzinfo=UTC)
    return (theirs - ours).total_seconds()
