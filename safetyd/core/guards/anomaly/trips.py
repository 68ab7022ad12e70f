"""Breakers that open again and again."""

from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta

from safetyd.core.guards.anomaly.findings import Condition, Detector, Found, Level

MAX_BREAKERS: Final = 1_000


class Trips(msgspec.Struct):
    """When one breaker opened, oldest first."""

    times: list[float] = []
    conditions: dict[str, Condition] = {}

    def add(self, t: float, last: int) -> None:
        self.times.append(t)
        del self.times[:-last]


class BreakerOscillation(Detector, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: ClassVar[str] = "breaker_oscillation"

    severity: Level = "high"
    trips: Annotated[int, Meta(ge=1, le=100)] = 3
    within_s: Annotated[float, Meta(gt=0)] = 600.0

    def found(self, breaker: str, trips: Trips, t: float) -> Found | None:
        if len(trips.times) < self.trips or trips.times[0] <= t - self.within_s:
            return None
        message = (
            f"Oscillating breaker: {breaker} tripped {self.trips} times "
            f"in {self.within_s / 60:g} min"
        )
        return Found(self.severity, message, trips.times[0] + self.within_s)


def trips_of(breakers: dict[str, Trips], key: str) -> Trips:
    """Return what is kept of a breaker; of too many, the one unused for longest is forgotten."""
    trips = breakers.pop(key, None) or Trips()
    breakers[key] = trips
    if len(breakers) > MAX_BREAKERS:
        del breakers[next(iter(breakers))]
    return trips
