"""How long, how dear and how many tokens one agent's calls of one model usually are."""

import math
from collections.abc import Callable
from typing import Annotated, ClassVar, Final, NamedTuple

import msgspec
from msgspec import Meta

from safetyd.core.guards.anomaly.findings import Condition, Detector, FoundCondition, Level
from safetyd.core.messages.money import dollars, nano

MAX_SAMPLES: Final = 100
_MOST: Final = 1e15  # larger numbers are taken for this, so that no sum overflows

Weight = Annotated[float, Meta(gt=0, le=1)]


class Sample(NamedTuple):
    """What one outcome said of itself."""

    latency_s: float | None
    usd: float | None
    tokens: float | None


class Baseline(msgspec.Struct):
    """What came before, oldest first."""

    latency: list[float] = []
    cost: list[float] = []
    tokens: list[float] = []
    latencies: int = 0  # all that there ever were
    fast_s: float = 0.0
    slow_s: float = 0.0
    conditions: dict[str, Condition] = {}

    def add(self, sample: Sample, *, fast: float, slow: float) -> None:
        """Take in an outcome; `fast` and `slow` are the weights of a new latency."""
        for kept, number in (
            (self.latency, sample.latency_s),
            (self.cost, sample.usd),
            (self.tokens, sample.tokens),
        ):
            if number is not None:
                kept.append(min(number, _MOST))
                del kept[:-MAX_SAMPLES]
        if sample.latency_s is not None:
            self._average(min(sample.latency_s, _MOST), fast, slow)

    def _average(self, latency_s: float, fast: float, slow: float) -> None:
        if not self.latencies:
            self.fast_s = self.slow_s = latency_s
        self.latencies += 1
        self.fast_s += fast * (latency_s - self.fast_s)
        self.slow_s += slow * (latency_s - self.slow_s)


class Outlier(Detector, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Latency, cost or tokens are far from those before."""

    id: ClassVar[str] = "outlier"

    severity: Level = "low"
    z: Annotated[float, Meta(gt=0)] = 3.0
    at_least: Annotated[int, Meta(ge=2, le=MAX_SAMPLES)] = 10

    def found(self, before: Baseline, sample: Sample) -> FoundCondition | None:
        odd = (
            self._odd("latency", _seconds, before.latency, sample.latency_s)
            or self._odd("cost", _dollars, before.cost, sample.usd)
            or self._odd("tokens", "{:.0f}".format, before.tokens, sample.tokens)
        )
        return FoundCondition(self.severity, f"Statistical outlier: {odd}") if odd else None

    def _odd(
        self, what: str, write: Callable[[float], str], before: list[float], number: float | None
    ) -> str:
        if number is None or len(before) < self.at_least:
            return ""
        mean, z = standing(min(number, _MOST), before)
        if abs(z) <= self.z:
            return ""
        return f"{what} {write(number)} (mean {write(mean)}, z {z:.1f})"


class EwmaLatency(Detector, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The latency of late is a multiple of what it usually is."""

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
        return FoundCondition(self.severity, f"Latency drift: {of_late}, usually {usually}")


def standing(number: float, before: list[float]) -> tuple[float, float]:
    """Return the mean of `before`, and how many standard deviations `number` is from it."""
    if before.count(before[0]) == len(before):
        return before[0], 0.0 if number == before[0] else math.copysign(
            math.inf, number - before[0]
        )
    mean = math.fsum(before) / len(before)
    deviation = math.dist(before, [mean] * len(before)) / math.sqrt(len(before))
    return mean, (number - mean) / deviation


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2g} s"


def _dollars(usd: float) -> str:
    return dollars(nano(usd))
