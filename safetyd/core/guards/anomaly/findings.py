"""Findings. A finding is raised when a condition begins to hold, and then not again for a while.

A finding may also cause a pause or a stop.
"""

import math
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

import msgspec

from safetyd.core.events.event import LEVELS, Event, Level
from safetyd.core.events.guard_events import AnomalyFound, Paused, Stopped

QUIET_S: Final = 600.0
NEVER: Final = -math.inf  # `until_t` of a condition that does not hold
SEVERE: Final[tuple[Level, ...]] = ("high", "critical")
RANK: Final[dict[Level, int]] = {level: rank for rank, level in enumerate(LEVELS, 1)}


class Detector(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of every `[anomaly.<id>]` table."""

    id: ClassVar[str]

    enabled: bool = True
    severity: Level = "medium"

    @property
    def most_severe(self) -> Level:
        """The highest severity that the detector's findings can have."""
        return self.severity


class FoundCondition(msgspec.Struct, frozen=True, gc=False):
    """A condition that holds now."""

    severity: Level
    message: str
    # When the condition ends by itself. Infinity: it ends when a check no longer finds it.
    until_t: float = math.inf
    remedy: str = ""  # the remedy for a proposal that it blocks
    usual: str = ""  # completes the sentence "Usual is ..."


class Condition(msgspec.Struct):
    """The state of one detector's condition: whether it holds, and what was reported."""

    holds: bool = False
    until_t: float = math.inf
    count: int = 0  # how often it was seen since it began
    raised: int = 0  # severity of the finding raised since it began; 0: none
    quiet_until_t: float = -math.inf

    def update(self, t: float, found: FoundCondition | None) -> bool:
        """Record the result of a check at `t`. Return whether to raise a finding.

        If a condition begins again within the quiet time, its finding is raised only if the
        condition still holds after that time.
        """
        if self.holds and t >= self.until_t:
            self._end(self.until_t)
        if found is None:
            if self.holds and self.until_t == math.inf:
                self._end(t)
            return False
        self.holds = True
        self.until_t = found.until_t
        self.count += 1
        severity = RANK[found.severity]
        if severity <= self.raised or t < self.quiet_until_t:
            return False
        self.raised = severity
        return True

    def _end(self, t: float) -> None:
        if self.raised:
            self.quiet_until_t = t + QUIET_S
        self.holds = False
        self.count = self.raised = 0


# A detector's id and what it found; None: its condition does not hold.
Looked = tuple[str, FoundCondition | None]


class Concern(NamedTuple):
    """The agent or breaker that a finding is about, and the epoch of the last stop or resume."""

    epoch: int
    agent: str | None = None
    breaker: str | None = None


def begun(
    t: float, conditions: dict[str, Condition], looked: Sequence[Looked]
) -> list[tuple[str, FoundCondition]]:
    """Update the conditions. Return the conditions for which to raise a finding."""
    raised: list[tuple[str, FoundCondition]] = []
    for id_, found in looked:
        if id_ not in conditions:
            if found is None:
                continue
            conditions[id_] = Condition()
        if conditions[id_].update(t, found) and found is not None:
            raised.append((id_, found))
    return raised


def would_raise(condition: Condition | None, t: float, found: FoundCondition) -> bool:
    """Return whether a finding would be raised, without changing state."""
    copied = Condition() if condition is None else msgspec.structs.replace(condition)
    return copied.update(t, found)


def response(cause: Event, id_: str, found: FoundCondition, concern: Concern) -> list[Event]:
    """Return the finding, and the pause or stop that its severity requires."""
    told: list[Event] = [
        AnomalyFound(
            at=cause.at,
            t=cause.t,
            rule=f"anomaly.{id_}",
            severity=found.severity,
            message=found.message,
            agent=concern.agent,
            breaker=concern.breaker,
            usual=found.usual,
        )
    ]
    if found.severity == "critical":
        told.append(_stopped(cause, id_, concern.epoch + 1))
    elif found.severity == "high" and concern.agent is not None:
        told.append(_paused(cause, concern.agent, found))
    return told


def _stopped(cause: Event, id_: str, epoch: int) -> Stopped:
    return Stopped(
        at=cause.at,
        t=cause.t,
        source="anomaly",
        by="safetyd",
        reason=f"Anomaly detected: anomaly.{id_}",
        epoch=epoch,
    )


def _paused(cause: Event, agent: str, found: FoundCondition) -> Paused:
    return Paused(
        at=cause.at,
        t=cause.t,
        agent=agent,
        source="anomaly",
        by="safetyd",
        reason=found.message,
        usual=found.usual,
    )
