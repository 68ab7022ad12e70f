"""Detectors for usage and failures: rounds, money, files, errors, and breakers that keep tripping.

If an agent reports a larger number than safetyd counted, the reported one counts for an hour.
Detectors that run for every outcome have `until_t`, like those for proposals.
"""

import math
from typing import Annotated, ClassVar, Final, Literal

import msgspec
from msgspec import Meta

from safetyd.core.events.event import Level
from safetyd.core.guards.anomaly.findings import NEVER, Condition, Detector, FoundCondition
from safetyd.core.guards.anomaly.measures import Measure, ages, values

HOUR_S: Final = 3600.0
SLOT_S: Final = 60.0
_ROUNDED: Final = 1e-9
Told = Literal["iterations", "cost", "files", "errors"]
Count = Annotated[int, Meta(ge=1, le=1000)]
MAX_BREAKERS: Final = 1_000


class Hour(msgspec.Struct):
    """A sum over the last hour, stored by the minute. An amount may count up to a minute longer."""

    first_t: list[float] = []
    last_t: list[float] = []
    amounts: list[float] = []

    def add(self, t: float, amount: float) -> None:
        if expired := self._expired(t):
            del self.first_t[:expired], self.last_t[:expired], self.amounts[:expired]
        if self.first_t and t < self.first_t[-1] + SLOT_S:
            self.last_t[-1] = t
            self.amounts[-1] += amount
            return
        self.first_t.append(t)
        self.last_t.append(t)
        self.amounts.append(amount)

    def total(self, t: float) -> float:
        # Rounded, so that fifty dimes are exactly five dollars.
        return round(sum(self.amounts[self._expired(t) :]), 9)

    def above_until_t(self, most: float) -> float:
        """Return when the sum falls to `most`, or `NEVER` if it is not above `most` now."""
        newest = 0.0
        for last_t, amount in zip(reversed(self.last_t), reversed(self.amounts), strict=True):
            newest += amount
            # If the difference is larger than `_ROUNDED`, rounding cannot change the result.
            if newest > most + _ROUNDED or round(newest, 9) > most:
                return last_t + HOUR_S
        return NEVER

    def series(self, t: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return the amounts of the last hour by the minute, and their ages."""
        expired = self._expired(t)
        return values(self.amounts[expired:]), ages(self.first_t[expired:], t)

    def _expired(self, t: float) -> int:
        for index, last_t in enumerate(self.last_t):
            if last_t > t - HOUR_S:
                return index
        return len(self.last_t)


class Numbers(msgspec.Struct):
    """Counters of one agent."""

    rounds: Hour = msgspec.field(default_factory=Hour)  # reported by the agent
    dispatches: Hour = msgspec.field(default_factory=Hour)  # allowed dispatches
    cost: Hour = msgspec.field(default_factory=Hour)
    failed: list[bool] = []  # the last outcomes
    outcomes: int = 0
    last_cost: float = 0.0
    rising: int = 0  # length of the current run of outcomes that each cost more than the one before
    files: int = 0  # files that the last commit changed
    told: dict[str, float] = {}
    told_t: dict[str, float] = {}

    def settle(self, t: float, cost: float, *, failed: bool, last: int) -> None:
        """Record an outcome. Keep only the last `last` results for the error rate."""
        self.cost.add(t, cost)
        self.failed.append(failed)
        if len(self.failed) > last:
            del self.failed[:-last]
        self.rising = self.rising + 1 if self.outcomes and cost > self.last_cost else 1
        self.outcomes += 1
        self.last_cost = cost

    def tell(self, what: Told, number: float | None, t: float) -> None:
        if number is not None:
            self.told[what] = number
            self.told_t[what] = t

    def told_of(self, what: Told, t: float) -> float:
        """Return the number that the agent reported in the last hour, or 0."""
        return self.told[what] if what in self.told and t - self.told_t[what] < HOUR_S else 0.0

    def iterations(self, t: float) -> float:
        ours = max(self.rounds.total(t), self.dispatches.total(t))
        return max(ours, self.told_of("iterations", t))

    def hourly_cost(self, t: float) -> float:
        return max(self.cost.total(t), self.told_of("cost", t))

    def files_changed(self, t: float) -> float:
        return max(self.files, self.told_of("files", t))

    def error_ratio(self, t: float, at_least: int = 1) -> float:
        known = len(self.failed) >= at_least
        return max(sum(self.failed) / len(self.failed) if known else 0.0, self.told_of("errors", t))


class EscalatingCost(Detector, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Each of the last outcomes cost more than the one before."""

    id: ClassVar[str] = "escalating_cost"

    last: Count = 10
    at_least: Count = 5

    def until_t(self, numbers: Numbers, _t: float) -> float:
        looked_at = min(numbers.outcomes, self.last)
        rises = looked_at >= self.at_least and numbers.rising >= looked_at
        return math.inf if rises else NEVER

    def found(self, _numbers: Numbers, _t: float) -> FoundCondition:
        usual = f"fewer than {self.last} outcomes in a row that each cost more"
        return FoundCondition(self.severity, "Escalating resource usage detected", usual=usual)

    def measure(self, numbers: Numbers, _t: float) -> Measure:
        """Return how many outcomes in a row cost more than the one before."""
        return Measure(detector=self.id, unit="outcomes", now=numbers.rising, most=self.last - 1)


class IterationsPerHour(Detector, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: ClassVar[str] = "iterations_per_hour"

    max: Annotated[float, Meta(ge=0)] = 20.0

    def found(self, numbers: Numbers, t: float) -> FoundCondition | None:
        iterations = numbers.iterations(t)
        if iterations <= self.max:
            return None
        until_t = math.inf
        if numbers.told_of("iterations", t) <= self.max:
            ours = (numbers.rounds, numbers.dispatches)
            until_t = max(hour.above_until_t(self.max) for hour in ours)
        message = f"High iteration velocity: {iterations:g}/hr"
        usual = f"at most {self.max:g} an hour"
        return FoundCondition(self.severity, message, until_t, usual=usual)

    def measure(self, numbers: Numbers, t: float) -> Measure:
        """Return the rounds of the last hour: reported or dispatched, whichever is more."""
        ours = max(numbers.rounds, numbers.dispatches, key=lambda hour: hour.total(t))
        rounds, ages_s = ours.series(t)
        return Measure(
            detector=self.id,
            unit="rounds",
            now=numbers.iterations(t),
            most=self.max,
            values=rounds,
            ages_s=ages_s,
        )


class CostPerHour(Detector, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: ClassVar[str] = "cost_per_hour"

    max_usd: Annotated[float, Meta(ge=0)] = 5.0

    def until_t(self, numbers: Numbers, t: float) -> float:
        told = numbers.told_of("cost", t) > self.max_usd
        return math.inf if told else numbers.cost.above_until_t(self.max_usd)

    def found(self, numbers: Numbers, t: float) -> FoundCondition:
        message = f"High API cost: ${numbers.hourly_cost(t):.2f}/hr"
        usual = f"at most ${self.max_usd:.2f} an hour"
        return FoundCondition(self.severity, message, self.until_t(numbers, t), usual=usual)

    def measure(self, numbers: Numbers, t: float) -> Measure:
        """Return the money spent in the last hour."""
        spent, ages_s = numbers.cost.series(t)
        return Measure(
            detector=self.id,
            unit="usd",
            now=numbers.hourly_cost(t),
            most=self.max_usd,
            values=spent,
            ages_s=ages_s,
        )


class FilesPerCommit(Detector, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: ClassVar[str] = "files_per_commit"

    max: Annotated[int, Meta(ge=0)] = 10

    def found(self, numbers: Numbers, t: float) -> FoundCondition | None:
        files = numbers.files_changed(t)
        if files <= self.max:
            return None
        usual = f"at most {self.max} in one commit"
        return FoundCondition(self.severity, f"Many file changes: {files:g} files", usual=usual)

    def measure(self, numbers: Numbers, t: float) -> Measure:
        """Return how many files the last commit changed."""
        return Measure(detector=self.id, unit="files", now=numbers.files_changed(t), most=self.max)


class ErrorRate(Detector, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: ClassVar[str] = "error_rate"

    max: Annotated[float, Meta(ge=0, le=1)] = 0.05
    last: Count = 100
    at_least: Count = 20

    def until_t(self, numbers: Numbers, t: float) -> float:
        return math.inf if numbers.error_ratio(t, self.at_least) > self.max else NEVER

    def found(self, numbers: Numbers, t: float) -> FoundCondition:
        ratio = numbers.error_ratio(t, self.at_least)
        usual = f"at most {self.max:.1%} of the last {self.last} outcomes"
        return FoundCondition(self.severity, f"High error rate: {ratio:.1%}", usual=usual)

    def measure(self, numbers: Numbers, t: float) -> Measure:
        """Return the share of failed outcomes. In the series, 1 is a failure."""
        return Measure(
            detector=self.id,
            unit="ratio",
            now=round(numbers.error_ratio(t, self.at_least), 6),
            most=self.max,
            values=values(numbers.failed),
        )


class Trips(msgspec.Struct):
    """The times when a breaker opened, oldest first."""

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

    def found(self, breaker: str, trips: Trips, t: float) -> FoundCondition | None:
        if len(trips.times) < self.trips or trips.times[0] <= t - self.within_s:
            return None
        message = (
            f"Oscillating breaker: {breaker} tripped {self.trips} times "
            f"in {self.within_s / 60:g} min"
        )
        until_t, usual = trips.times[0] + self.within_s, f"fewer than {self.trips} times"
        return FoundCondition(self.severity, message, until_t, usual=usual)

    def measure(self, breaker: str, trips: Trips, t: float) -> Measure:
        """Return how often a breaker opened recently."""
        recent = sum(t - time < self.within_s for time in trips.times)
        return Measure(
            detector=self.id,
            unit="times",
            now=recent,
            most=self.trips - 1,
            breaker=breaker,
            values=(1.0,) * len(trips.times),
            ages_s=ages(trips.times, t),
        )


def trips_of(breakers: dict[str, Trips], key: str) -> Trips:
    """Return the trips of a breaker. Beyond the limit, forget the least recently used breaker."""
    trips = breakers.pop(key, None) or Trips()
    breakers[key] = trips
    if len(breakers) > MAX_BREAKERS:
        del breakers[next(iter(breakers))]
    return trips
