"""What an agent proposes: the same again and again, one type, too fast, or at an odd time.

Detectors are asked about a history and a proposal that is not yet in it.
"""

from datetime import UTC, datetime
from typing import Annotated, ClassVar, Final, NamedTuple

import msgspec
from msgspec import Meta

from safetyd.core.detectors.condition import LEVELS, Detector, Found, Level
from safetyd.core.proposal import Proposal, action_key

MAX_ACTIONS: Final = 64  # different actions whose times are kept
# Types that are repeated while waiting.
_PATIENT: Final = frozenset({"scroll", "key", "wait"})

Count = Annotated[int, Meta(ge=1, le=1000)]
Seconds = Annotated[float, Meta(gt=0)]


class Seen(NamedTuple):
    """A proposal as the detectors see it."""

    t: float
    type: str
    key: bytes  # its action key, or nothing if no detector asks for it
    patient: bool
    read_only: bool
    skew_s: float | None  # how far its own time is from ours, if it gives one


class Acts(msgspec.Struct, frozen=True, gc=False):
    """The proposals that were not only to read: how many, and how alike the last ones were."""

    count: int = 0
    t: float = 0.0
    type: str = ""
    key: bytes = b""
    one_type: int = 0  # how many in a row, to the last, were of one type
    one_action: int = 0
    rapid: int = 0  # how many in a row came soon after one another

    def then(self, seen: Seen, gap_s: float) -> "Acts":
        return Acts(
            self.count + 1,
            seen.t,
            seen.type,
            seen.key,
            self.one_type + 1 if seen.type == self.type else 1,
            self.one_action + 1 if seen.key == self.key else 1,
            self.rapid + 1 if seen.t - self.t < gap_s else 1,
        )


class History(msgspec.Struct):
    """What is remembered of one agent's proposals."""

    acts: Acts = Acts()
    last: bytes = b""  # the last action's key
    in_a_row: int = 0  # how often it was proposed without another in between
    times: dict[bytes, list[float]] = {}  # when actions were last proposed, oldest first

    def in_a_row_with(self, seen: Seen) -> int:
        return self.in_a_row + 1 if seen.key == self.last else 1

    def add(self, seen: Seen, *, times: int, gap_s: float) -> None:
        """Take in a proposal; `times` is how many times of each action are kept."""
        if not seen.patient:
            self.in_a_row = self.in_a_row_with(seen)
            self.last = seen.key
            self._keep_time(seen, times)
        if not seen.read_only:
            self.acts = self.acts.then(seen, gap_s)

    def _keep_time(self, seen: Seen, most: int) -> None:
        times = self.times.pop(seen.key, None)
        if times is None:
            times = []
            if len(self.times) >= MAX_ACTIONS:
                del self.times[next(iter(self.times))]
        times.append(seen.t)
        if len(times) > most:
            del times[:-most]
        self.times[seen.key] = times


class RapidIdentical(Detector, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: ClassVar[str] = "rapid_identical"

    count: Annotated[int, Meta(ge=2, le=100)] = 5
    within_s: Seconds = 10.0

    def found(self, history: History, seen: Seen) -> Found | None:
        before = history.times.get(seen.key, ())
        if len(before) < self.count - 1:
            return None
        until_t = before[1 - self.count] + self.within_s
        if until_t <= seen.t:
            return None
        message = f"Rapid identical requests: {seen.type} {self.count} times in {self.within_s:g} s"
        return Found(self.severity, message, until_t)


class RepeatedAction(Detector, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: ClassVar[str] = "repeated_action"

    max: Count = 5

    def found(self, history: History, seen: Seen) -> Found | None:
        times = history.in_a_row_with(seen)
        if times <= self.max:
            return None
        return Found(self.severity, f"Repeated action: {seen.type} {times} times")


class LoopActionType(Detector, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of the last acts are of one type."""

    id: ClassVar[str] = "loop_action_type"

    severity: Level = "low"
    same_action_severity: Level = "medium"  # at least this if they are also the same action
    last: Count = 10
    at_least: Count = 5

    def found(self, acts: Acts) -> Found | None:
        looked_at = min(acts.count, self.last)
        if looked_at < self.at_least or acts.one_type < looked_at:
            return None
        severity = self.severity
        if acts.one_action >= looked_at:
            severity = max(severity, self.same_action_severity, key=LEVELS.index)
        message = f"Potential loop detected: same action repeated {looked_at} times"
        return Found(severity, message)


class RapidActions(Detector, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of the last acts came soon after one another."""

    id: ClassVar[str] = "rapid_actions"

    severity: Level = "low"
    last: Count = 10
    at_least: Count = 5
    gap_s: Seconds = 5.0

    def found(self, acts: Acts) -> Found | None:
        looked_at = min(acts.count, self.last)
        if looked_at < self.at_least or acts.rapid < looked_at:
            return None
        return Found(self.severity, "Unusually rapid actions detected")


class TimeSkew(Detector, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: ClassVar[str] = "time_skew"

    severity: Level = "low"
    max_s: Seconds = 30.0

    def found(self, skew_s: float) -> Found | None:
        if abs(skew_s) <= self.max_s:
            return None
        return Found(self.severity, f"Time skew: {abs(skew_s):.0f} s")


def seen_of(
    agent: str, kind: str, proposal: Proposal, at: datetime, t: float, *, read_only: bool
) -> Seen:
    """Return a proposal as it is seen at `at` and `t`; `kind` is its type after aliases."""
    patient = kind in _PATIENT
    wanted = not (patient and read_only)
    return Seen(
        t,
        kind,
        action_key(agent, kind, proposal) if wanted else b"",
        patient,
        read_only,
        None if proposal.at is None else _skew_s(proposal.at, at),
    )


def _skew_s(theirs: datetime, ours: datetime) -> float:
    if theirs.tzinfo is None:
        theirs = theirs.replace(tzinfo=UTC)
    return (theirs - ours).total_seconds()
