"""The usual latency, cost and tokens of one agent's calls to one model."""

import math
from collections.abc import Callable, Iterator
from typing import Annotated, ClassVar, Final, NamedTuple

import msgspec
from msgspec import Meta

from safetyd.core.events.event import Level
from safetyd.core.guards.anomaly.findings import Condition, Detector, FoundCondition
from safetyd.core.guards.anomaly.measures import Measure, Unit, values
from safetyd.core.messages.money import dollars, nano

MAX_SAMPLES: Final = 100
_MOST: Final = 1e15  # maximum of a sample, so that no sum overflows

Weight = Annotated[float, Meta(gt=0, le=1)]


class Sample(NamedTuple):
    """The numbers of one outcome."""

    latency_s: float | None
    usd: float | None
    tokens: float | None


class Baseline(msgspec.Struct):
    """Earlier samples, oldest first."""

    latency: list[float] = []
    cost: list[float] = []
    tokens: list[float] = []
    latencies: int = 0  # number of latencies so far, including dropped ones
    fast_s: float = 0.0
    slow_s: float = 0.0
    conditions: dict[str, Condition] = {}

    def add(self, sample: Sample, *, fast: float, slow: float) -> None:
        """Record an outcome. `fast` and `slow` weight its latency in the two averages."""
        latency_s, usd, tokens = sample
        if latency_s is not None:
            _keep(self.latency, latency_s)
            self._average(min(latency_s, _MOST), fast, slow)
        if usd is not None:
            _keep(self.cost, usd)
        if tokens is not None:
            _keep(self.tokens, tokens)

    def _average(self, latency_s: float, fast: float, slow: float) -> None:
        if not self.latencies:
            self.fast_s = self.slow_s = latency_s
        self.latencies += 1
        self.fast_s += fast * (latency_s - self.fast_s)
        self.slow_s += slow * (latency_s - self.slow_s)


class Outlier(Detector, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Latency, cost or token count differs greatly from earlier samples."""

    id: ClassVar[str] = "outlier"

    severity: Level = "low"
    z: Annotated[float, Meta(gt=0)] = 3.0
    at_least: Annotated[int, Meta(ge=2, le=MAX_SAMPLES)] = 10

    def found(self, before: Baseline, sample: Sample) -> FoundCondition | None:
        latency_s, usd, tokens = sample
        odd = ""
        if latency_s is not None:
            odd = self._odd("latency", _seconds, before.latency, latency_s)
        if usd is not None:
            odd = odd or self._odd("cost", _dollars, before.cost, usd)
        if tokens is not None:
            odd = odd or self._odd("tokens", "{:.0f}".format, before.tokens, tokens)
        if not odd:
            return None
        usual = f"within {self.z:g} standard deviations of the mean of earlier calls"
        return FoundCondition(self.severity, f"Statistical outlier: {odd}", usual=usual)

    def _odd(
        self, what: str, write: Callable[[float], str], before: list[float], number: float
    ) -> str:
        if len(before) < self.at_least:
            return ""
        mean, z = standing(min(number, _MOST), before)
        if abs(z) <= self.z:
            return ""
        return f"{what} {write(number)} (mean {write(mean)}, z {z:.1f})"

    def measures(self, baseline: Baseline, model: str) -> Iterator[Measure]:
        """Yield the last latency, cost and tokens, with the usual values if known."""
        kept: tuple[tuple[Unit, list[float]], ...] = (
            ("s", baseline.latency),
            ("usd", baseline.cost),
            ("tokens", baseline.tokens),
        )
        for unit, numbers in kept:
            if numbers:
                yield self._measure(unit, numbers, model)

    def _measure(self, unit: Unit, numbers: list[float], model: str) -> Measure:
        measure = Measure(
            detector=self.id, unit=unit, now=numbers[-1], model=model, values=values(numbers)
        )
        if len(numbers) <= self.at_least:
            return measure
        mean, deviation = spread(numbers[:-1])
        return msgspec.structs.replace(
            measure,
            usual=mean,
            deviation=deviation,
            most=mean + self.z * deviation,
            least=max(mean - self.z * deviation, 0.0),
        )


class EwmaLatency(Detector, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The recent latency is a multiple of the usual one."""

    id: ClassVar[str] = "ewma_latency"

    severity: Level = "low"
    after: Annotated[int, Meta(ge=1)] = 30
    times: Annotated[float, Meta(gt=1)] = 2.0
    fast: Weight = 0.3
    slow: Weight = 0.03

    def found(self, with_it: Baseline) -> FoundCondition | None:
        if with_it.latencies <= self.after or with_it.fast_s <= self.times * with_it.slow_s:
            return None
        of_late, usually = _seconds(with_it.fast_s), _seconds(with_it.slow_s)
        message = f"Latency drift: {of_late}, usually {usually}"
        return FoundCondition(self.severity, message, usual=f"at most {self.times:g} times that")

    def measures(self, baseline: Baseline, model: str) -> Iterator[Measure]:
        """Yield the recent and the usual latency, if there are samples."""
        if baseline.latencies:
            learnt = baseline.latencies > self.after
            yield Measure(
                detector=self.id,
                unit="s",
                now=baseline.fast_s,
                usual=baseline.slow_s,
                most=self.times * baseline.slow_s if learnt else None,
                model=model,
                values=values(baseline.latency),
            )


def _keep(numbers: list[float], number: float) -> None:
    numbers.append(min(number, _MOST))
    if len(numbers) > MAX_SAMPLES:
        del numbers[0]


def standing(number: float, before: list[float]) -> tuple[float, float]:
    """Return the mean of `before`, and how many standard deviations `number` is from it."""
    mean, deviation = spread(before)
    if deviation:
        return mean, (number - mean) / deviation
    return mean, 0.0 if number == mean else math.copysign(math.inf, number - mean)


def spread(numbers: list[float]) -> tuple[float, float]:
    """Return the mean and the standard deviation."""
    if numbers.count(numbers[0]) == len(numbers):
        return numbers[0], 0.0
    mean = math.fsum(numbers) / len(numbers)
    return mean, math.dist(numbers, [mean] * len(numbers)) / math.sqrt(len(numbers))


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2g} s"


def _dollars(usd: float) -> str:
    return dollars(nano(usd))
