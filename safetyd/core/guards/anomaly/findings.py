"""A finding is raised when its condition begins to hold, and not again for a while."""

import math
from typing import ClassVar, Final, Literal

import msgspec

QUIET_S: Final = 600.0

Level = Literal["low", "medium", "high", "critical"]

LEVELS: Final[tuple[Level, ...]] = ("low", "medium", "high", "critical")
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


class Found(msgspec.Struct, frozen=True, gc=False):
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

    def update(self, t: float, found: Found | None) -> bool:
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
