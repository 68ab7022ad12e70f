"""A finding is raised when its condition begins to hold, and not again for a while.

What follows is a finding alone, a pause, or a stop.
"""

import math
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

import msgspec

from safetyd.core.events.event import LEVELS, Event, Level
from safetyd.core.events.guard_events import AnomalyFound, Paused, Stopped

QUIET_S: Final = 600.0
NEVER: Final = -math.inf  # when a condition stops holding that does not hold
SEVERE: Final[tuple[Level, ...]] = ("high", "critical")
RANK: Final[dict[Level, int]] = {level: rank for rank, level in enumerate(LEVELS, 1)}


class Detector(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every `[anomaly.<id>]` table has."""

    id: ClassVar[str]

    enabled: bool = True
    severity: Level = "medium"

    @property
    def most_severe(self) -> Level:
        """The severity that its findings can have at most."""
        return self.severity


class FoundCondition(msgspec.Struct, frozen=True, gc=False):
    """A condition that holds now."""

    severity: Level
    message: str
    # When it stops holding of itself. Infinity: when it is seen not to hold.
    until_t: float = math.inf
    remedy: str = ""  # what would let a proposal pass that it blocks


class Condition(msgspec.Struct):
    """Whether one detector's condition holds, and what was said of it."""

    holds: bool = False
    until_t: float = math.inf
    count: int = 0  # how often it was seen to hold since it began
    raised: int = 0  # how severe a finding was raised since it began; 0: none
    quiet_until_t: float = -math.inf

    def update(self, t: float, found: FoundCondition | None) -> bool:
        """Take note of what was found at `t`; say whether to raise it.

        What begins again too soon is raised when the quiet is over, if it holds then.
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


# What a detector found, by its id; None: its condition does not hold.
Looked = tuple[str, FoundCondition | None]


class Concern(NamedTuple):
    """Whom a finding is about, and the last epoch of a stop."""

    epoch: int
    agent: str | None = None
    breaker: str | None = None


def begun(
    t: float, conditions: dict[str, Condition], looked: Sequence[Looked]
) -> list[tuple[str, FoundCondition]]:
    """Bring the conditions up to date; return those that begin to hold, to be raised."""
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
    """Say whether a finding would be raised, and change nothing."""
    copied = Condition() if condition is None else msgspec.structs.replace(condition)
    return copied.update(t, found)


def response(cause: Event, id_: str, found: FoundCondition, concern: Concern) -> list[Event]:
    """Return the finding, and the pause or stop that its severity asks for."""
    told: list[Event] = [
        AnomalyFound(
            at=cause.at,
            t=cause.t,
            rule=f"anomaly.{id_}",
            severity=found.severity,
            message=found.message,
            agent=concern.agent,
            breaker=concern.breaker,
        )
    ]
    if found.severity == "critical":
        told.append(_stopped(cause, id_, concern.epoch + 1))
    elif found.severity == "high" and concern.agent is not None:
        told.append(_paused(cause, concern.agent, found.message))
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


def _paused(cause: Event, agent: str, reason: str) -> Paused:
    return Paused(
        at=cause.at, t=cause.t, agent=agent, source="anomaly", by="safetyd", reason=reason
    )
