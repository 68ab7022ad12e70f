"""All detectors that look at one agent, and what they remember of it."""

from typing import Final, TypeVar

import msgspec

from safetyd.core.detectors.baselines import Baseline, EwmaLatency, Outlier, Sample
from safetyd.core.detectors.condition import SEVERE, Condition, Detector
from safetyd.core.detectors.people import NoHuman
from safetyd.core.detectors.proposals import (
    History,
    LoopActionType,
    RapidActions,
    RapidIdentical,
    RepeatedAction,
    Seen,
    TimeSkew,
)
from safetyd.core.detectors.rates import (
    CostPerHour,
    ErrorRate,
    EscalatingCost,
    FilesPerCommit,
    IterationsPerHour,
    Numbers,
)
from safetyd.core.detectors.response import Looked
from safetyd.core.detectors.trips import BreakerOscillation
from safetyd.core.events import Settled
from safetyd.core.money import NANO
from safetyd.core.telemetry import Metrics

MAX_MODELS: Final = 8  # per agent; for one more, the one unused for longest is forgotten

AnyDetector = TypeVar("AnyDetector", bound=Detector)


class AnomalyConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    rapid_identical: RapidIdentical = RapidIdentical()
    repeated_action: RepeatedAction = RepeatedAction()
    loop_action_type: LoopActionType = LoopActionType()
    rapid_actions: RapidActions = RapidActions()
    escalating_cost: EscalatingCost = EscalatingCost()
    iterations_per_hour: IterationsPerHour = IterationsPerHour()
    cost_per_hour: CostPerHour = CostPerHour()
    files_per_commit: FilesPerCommit = FilesPerCommit()
    error_rate: ErrorRate = ErrorRate()
    outlier: Outlier = Outlier()
    ewma_latency: EwmaLatency = EwmaLatency()
    time_skew: TimeSkew = TimeSkew()
    breaker_oscillation: BreakerOscillation = BreakerOscillation()
    no_human: NoHuman = NoHuman()


class Gauges(msgspec.Struct, frozen=True):
    """An agent's numbers of now, its own words included where they are larger."""

    iterations_per_hour: float
    cost_per_hour_usd: float
    error_ratio: float  # of the last outcomes
    files_per_commit: float  # of the last one
    repeated_action: int  # how often the last action was proposed in a row


class Agent(msgspec.Struct):
    """What is remembered of one agent."""

    history: History = msgspec.field(default_factory=History)
    numbers: Numbers = msgspec.field(default_factory=Numbers)
    models: dict[str, Baseline] = {}  # longest unused first
    conditions: dict[str, Condition] = {}

    def baseline(self, model: str) -> Baseline:
        baseline = self.models.pop(model, None) or Baseline()
        self.models[model] = baseline
        if len(self.models) > MAX_MODELS:
            del self.models[next(iter(self.models))]
        return baseline

    def holding(self, t: float) -> dict[str, int]:
        """Return what holds at `t`, by its detector, and how often it was seen to so far."""
        parts = (self.conditions, *(baseline.conditions for baseline in self.models.values()))
        return {
            id_: condition.count
            for part in parts
            for id_, condition in part.items()
            if condition.holds and t < condition.until_t
        }

    def gauges(self, t: float) -> Gauges:
        return Gauges(
            self.numbers.iterations(t),
            self.numbers.hourly_cost(t),
            self.numbers.error_ratio(t),
            self.numbers.files_changed(t),
            self.history.in_a_row,
        )


class Detectors:
    """The detectors that are enabled."""

    def __init__(self, config: AnomalyConfig) -> None:
        self._config = config
        self._same: tuple[RapidIdentical | RepeatedAction, ...] = _enabled(
            config.rapid_identical, config.repeated_action
        )
        self._acts: tuple[LoopActionType | RapidActions, ...] = _enabled(
            config.loop_action_type, config.rapid_actions
        )
        self._skew = _enabled(config.time_skew)
        self._iterations = _enabled(config.iterations_per_hour)
        self._files = _enabled(config.files_per_commit)
        self._rising = _enabled(config.escalating_cost)
        self._rates: tuple[CostPerHour | ErrorRate, ...] = _enabled(
            config.cost_per_hour, config.error_rate
        )
        self._outlier = _enabled(config.outlier)
        self._drift = _enabled(config.ewma_latency)

    @property
    def severe(self) -> bool:
        """Say whether a proposal can raise a severe finding."""
        severities = {one.severity for one in (*self._same, *self._acts, *self._skew)}
        if self._config.loop_action_type.enabled:
            severities.add(self._config.loop_action_type.same_action_severity)
        return not severities.isdisjoint(SEVERE)

    def proposed(self, agent: Agent, seen: Seen) -> list[Looked]:
        """Look at a proposal that the agent's history does not yet have."""
        looked: list[Looked] = []
        if not seen.patient:
            looked += [(one.id, one.found(agent.history, seen)) for one in self._same]
        if not seen.read_only:
            acts = agent.history.acts.then(seen, self._config.rapid_actions.gap_s)
            looked += [(one.id, one.found(acts)) for one in self._acts]
        if seen.skew_s is not None:
            looked += [(one.id, one.found(seen.skew_s)) for one in self._skew]
        return looked

    def remember(self, agent: Agent, seen: Seen) -> None:
        times, gap_s = self._config.rapid_identical.count, self._config.rapid_actions.gap_s
        agent.history.add(seen, times=times, gap_s=gap_s)

    def iterated(self, numbers: Numbers, t: float) -> list[Looked]:
        return [(one.id, one.found(numbers, t)) for one in self._iterations]

    def committed(self, numbers: Numbers, t: float) -> list[Looked]:
        return [(one.id, one.found(numbers, t)) for one in self._files]

    def told(self, numbers: Numbers, metrics: Metrics, t: float) -> list[Looked]:
        """Take in what an agent says of itself."""
        numbers.tell("iterations", metrics.iterations_per_hour, t)
        numbers.tell("cost", metrics.api_cost_last_hour, t)
        numbers.tell("files", metrics.files_changed_per_commit, t)
        numbers.tell("errors", metrics.error_rate, t)
        return self.iterated(numbers, t) + self.committed(numbers, t) + self._rated(numbers, t)

    def settled(self, numbers: Numbers, event: Settled) -> list[Looked]:
        """Take in an outcome."""
        kept = self._config.error_rate.last
        numbers.settle(event.t, _usd(event) or 0.0, failed=not event.ok, last=kept)
        looked: list[Looked] = [(one.id, one.found(numbers)) for one in self._rising]
        looked += self._rated(numbers, event.t)
        if event.type == "git_commit" and event.files_changed is not None:
            numbers.files = event.files_changed
            looked += self.committed(numbers, event.t)
        return looked

    def compared(self, baseline: Baseline, event: Settled) -> list[Looked]:
        """Compare an outcome with those before, then take it in."""
        sample = _sample(event)
        looked: list[Looked] = []
        if any(number is not None for number in sample):
            looked += [(one.id, one.found(baseline, sample)) for one in self._outlier]
        config = self._config.ewma_latency
        baseline.add(sample, fast=config.fast, slow=config.slow)
        if sample.latency_s is not None:
            looked += [(one.id, one.found(baseline)) for one in self._drift]
        return looked

    def _rated(self, numbers: Numbers, t: float) -> list[Looked]:
        return [(one.id, one.found(numbers, t)) for one in self._rates]


def _enabled(*detectors: AnyDetector) -> tuple[AnyDetector, ...]:
    return tuple(detector for detector in detectors if detector.enabled)


def _usd(event: Settled) -> float | None:
    """Return the larger of what an outcome says that it cost and what its tokens cost."""
    if event.priced_nano is None:
        return event.cost_usd
    return max(event.priced_nano / NANO, event.cost_usd or 0.0)


def _sample(event: Settled) -> Sample:
    return Sample(
        None if event.latency_ms is None else event.latency_ms / 1000,
        _usd(event),
        None if event.tokens is None else float(event.tokens.input + event.tokens.output),
    )
