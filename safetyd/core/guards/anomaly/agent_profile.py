"""The detectors for one agent, and their state."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from safetyd.core.action_types import PURCHASES
from safetyd.core.events.decision_events import Decided, Proposed, Settled
from safetyd.core.guards.anomaly.baselines import Baseline, EwmaLatency, Outlier, Sample
from safetyd.core.guards.anomaly.findings import (
    RANK,
    SEVERE,
    Condition,
    Detector,
    FoundCondition,
    Looked,
)
from safetyd.core.guards.anomaly.measures import Measure
from safetyd.core.guards.anomaly.presence import NoHuman
from safetyd.core.guards.anomaly.proposal_detectors import (
    PATIENT,
    LoopActionType,
    ProposalHistory,
    RapidActions,
    RapidIdentical,
    RepeatedAction,
    TimeSkew,
    skew_s,
)
from safetyd.core.guards.anomaly.usage_detectors import (
    BreakerOscillation,
    CostPerHour,
    ErrorRate,
    EscalatingCost,
    FilesPerCommit,
    IterationsPerHour,
    Numbers,
)
from safetyd.core.messages.binding import action_key
from safetyd.core.messages.money import NANO
from safetyd.core.messages.telemetry import Metrics

# Outcomes without a proposal that say nothing about a loop: costs of coding agents have their type.
NOT_LOGGED: Final = frozenset({"", "model_call"})
MAX_MODELS: Final = 8  # per agent; beyond that, the least recently used model is forgotten

AnyDetector = TypeVar("AnyDetector", bound=Detector)
OfProposals = RapidIdentical | RepeatedAction | LoopActionType | RapidActions
OfOutcomes = EscalatingCost | CostPerHour | ErrorRate
Seen = TypeVar("Seen")


class Asked(NamedTuple, Generic[Seen]):
    """A detector on the fast path, with its methods looked up once.

    `until_t` is a cheap check of the condition. `found` describes a condition that holds.
    """

    id: str
    rank: int  # the highest severity of the detector's findings
    until_t: Callable[[Seen, float], float]
    found: Callable[[Seen, float], FoundCondition]


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

    def for_hosts(self) -> "AnomalyConfig":
        """Return the settings for coding agents, which act fast and repeat commands (tests)."""
        replace = msgspec.structs.replace
        return replace(
            self,
            rapid_identical=replace(self.rapid_identical, severity="low"),
            repeated_action=replace(self.repeated_action, severity="low"),
            loop_action_type=replace(self.loop_action_type, enabled=False),
            rapid_actions=replace(self.rapid_actions, enabled=False),
            error_rate=replace(self.error_rate, enabled=False),
            outlier=replace(self.outlier, enabled=False),
            ewma_latency=replace(self.ewma_latency, enabled=False),
        )


class ProfileGauges(msgspec.Struct, frozen=True):
    """The current numbers of an agent, counted or reported, whichever are larger."""

    iterations_per_hour: float
    cost_per_hour_usd: float
    error_ratio: float  # share of failures among the last outcomes, if there are enough
    files_per_commit: float  # files that the last commit changed
    repeated_action: int  # how many times in a row the last action was proposed


class AgentProfile(msgspec.Struct):
    """The state of all detectors for one agent."""

    history: ProposalHistory = msgspec.field(default_factory=ProposalHistory)
    numbers: Numbers | None = None  # None until something is counted
    models: dict[str, Baseline] = {}  # longest unused first
    conditions: dict[str, Condition] = {}

    def counted(self) -> Numbers:
        """Return the numbers. Create them on first use."""
        if self.numbers is None:
            self.numbers = Numbers()
        return self.numbers

    def baseline(self, model: str) -> Baseline:
        models = self.models
        models[model] = baseline = models.pop(model, None) or Baseline()
        if len(models) > MAX_MODELS:
            del models[next(iter(models))]
        return baseline

    def holding(self, t: float) -> dict[str, int]:
        """Return, by detector, how often each condition that holds at `t` was seen."""
        parts = (self.conditions, *(baseline.conditions for baseline in self.models.values()))
        return {
            id_: condition.count
            for part in parts
            for id_, condition in part.items()
            if condition.holds and t < condition.until_t
        }

    def gauges(self, t: float, at_least: int) -> ProfileGauges:
        """Return the numbers at `t`. The error ratio requires `at_least` outcomes."""
        numbers = self.numbers or Numbers()
        return ProfileGauges(
            numbers.iterations(t),
            numbers.hourly_cost(t),
            numbers.error_ratio(t, at_least),
            numbers.files_changed(t),
            self.history.in_a_row,
        )


class Detectors:
    """The enabled detectors."""

    def __init__(self, config: AnomalyConfig) -> None:
        self._config = config
        self._times, self._gap_s = config.rapid_identical.count, config.rapid_actions.gap_s
        of_same: Sequence[OfProposals] = _enabled(config.rapid_identical, config.repeated_action)
        of_acts: Sequence[OfProposals] = _enabled(config.loop_action_type, config.rapid_actions)
        self._of_proposals = (*of_same, *of_acts)
        same, acts = tuple(map(_of_proposals, of_same)), tuple(map(_of_proposals, of_acts))
        # Keys: whether the proposal's type is in `PATIENT`, and whether the proposal is read-only.
        self._asked = {
            (False, False): same + acts,
            (False, True): same,
            (True, False): acts,
            (True, True): (),
        }
        self._of_logged = tuple(map(_of_proposals, _enabled(config.loop_action_type)))
        self._skew = _enabled(config.time_skew)
        self._iterations = _enabled(config.iterations_per_hour)
        self._files = _enabled(config.files_per_commit)
        self._rising = _enabled(config.escalating_cost)
        self._rates: tuple[CostPerHour | ErrorRate, ...] = _enabled(
            config.cost_per_hour, config.error_rate
        )
        self._of_outcomes = tuple(map(_of_outcomes, (*self._rising, *self._rates)))
        self._outlier = _enabled(config.outlier)
        self._drift = _enabled(config.ewma_latency)

    @property
    def severe(self) -> bool:
        """Return whether a proposal can raise a severe finding."""
        return any(one.most_severe in SEVERE for one in (*self._of_proposals, *self._skew))

    def measures(
        self, agent: AgentProfile, t: float, only: Collection[str] | None = None
    ) -> Iterator[Measure]:
        """Yield the numbers that the detectors in `only` compare, or those of all detectors."""
        history, numbers = agent.history, agent.numbers or Numbers()
        for one in self._of_proposals:
            if only is None or one.id in only:
                yield one.measure(history, t)
        for counts in (*self._rising, *self._iterations, *self._rates, *self._files):
            if only is None or counts.id in only:
                yield counts.measure(numbers, t)
        learning: tuple[Outlier | EwmaLatency, ...] = (*self._outlier, *self._drift)
        for learns in learning:
            if only is None or learns.id in only:
                for model, baseline in agent.models.items():
                    yield from learns.measures(baseline, model)

    def remember(
        self, history: ProposalHistory, event: Proposed | Decided, kind: str, *, reads: bool
    ) -> None:
        """Record a proposal. `kind` is its resolved type."""
        history.t, history.type = event.t, kind
        patient = kind in PATIENT
        if patient and reads:
            return
        key = action_key(event.agent, kind, event.proposal)
        if not patient:
            history.add(key, self._times)
        if not reads:
            history.act_on(key, self._gap_s)

    def holding(self, history: ProposalHistory, *, reads: bool) -> list[tuple[str, FoundCondition]]:
        """Return the conditions that hold for the last recorded proposal."""
        asked, t = self._asked[history.type in PATIENT, reads], history.t
        return [(one.id, one.found(history, t)) for one in asked if one.until_t(history, t) > t]

    def proposed(self, agent: AgentProfile, *, reads: bool) -> list[Looked]:
        """Check the last recorded proposal."""
        history = agent.history
        asked = self._asked[history.type in PATIENT, reads]
        return _looked(asked, history, history.t, agent.conditions)

    def skewed(self, event: Proposed | Decided) -> list[Looked]:
        """Check the time that a proposal states."""
        theirs = event.proposal.at
        if theirs is None:
            return []
        return [(one.id, one.found(skew_s(theirs, event.at))) for one in self._skew]

    def iterated(self, numbers: Numbers, t: float) -> list[Looked]:
        return [(one.id, one.found(numbers, t)) for one in self._iterations]

    def committed(self, numbers: Numbers, t: float) -> list[Looked]:
        return [(one.id, one.found(numbers, t)) for one in self._files]

    def told(self, numbers: Numbers, metrics: Metrics, t: float) -> list[Looked]:
        """Record the metrics that an agent reports."""
        numbers.tell("iterations", metrics.iterations_per_hour, t)
        numbers.tell("cost", metrics.api_cost_last_hour, t)
        numbers.tell("files", metrics.files_changed_per_commit, t)
        numbers.tell("errors", metrics.error_rate, t)
        return self.iterated(numbers, t) + self.committed(numbers, t) + self._rated(numbers, t)

    def settled(self, agent: AgentProfile, event: Settled) -> list[Looked]:
        """Record an outcome."""
        numbers, t, kept = agent.counted(), event.t, self._config.error_rate.last
        numbers.settle(t, _usd(event) or 0.0, failed=not event.ok, last=kept)
        looked = _looked(self._of_outcomes, numbers, t, agent.conditions)
        if event.id is None and event.type not in NOT_LOGGED:
            agent.history.log(t, event.type)
            looked += _looked(self._of_logged, agent.history, t, agent.conditions)
        if event.type == "git_commit" and event.files_changed is not None:
            numbers.files = event.files_changed
            looked += self.committed(numbers, t)
        return looked

    def compared(self, baseline: Baseline, event: Settled) -> list[Looked]:
        """Compare an outcome with earlier ones, then record it."""
        sample = _sample(event)
        if sample.latency_s is sample.usd is sample.tokens is None:
            return []
        looked: list[Looked] = [
            (one.id, found)
            for one in self._outlier
            if (found := one.found(baseline, sample)) or one.id in baseline.conditions
        ]
        config = self._config.ewma_latency
        baseline.add(sample, fast=config.fast, slow=config.slow)
        if sample.latency_s is not None:
            looked += [(one.id, one.found(baseline)) for one in self._drift]
        return looked

    def _rated(self, numbers: Numbers, t: float) -> list[Looked]:
        return [
            (one.id, one.found(numbers, t) if one.until_t(numbers, t) > t else None)
            for one in self._rates
        ]


def _enabled(*detectors: AnyDetector) -> tuple[AnyDetector, ...]:
    return tuple(detector for detector in detectors if detector.enabled)


def _of_proposals(one: OfProposals) -> Asked[ProposalHistory]:
    return Asked(one.id, RANK[one.most_severe], one.until_t, one.found)


def _of_outcomes(one: OfOutcomes) -> Asked[Numbers]:
    return Asked(one.id, RANK[one.most_severe], one.until_t, one.found)


def _looked(
    asked: Sequence[Asked[Seen]], seen: Seen, t: float, conditions: dict[str, Condition]
) -> list[Looked]:
    """Return the conditions that may have begun, changed or ended. Count those that still hold."""
    looked: list[Looked] = []
    for id_, rank, until, found in asked:
        until_t, condition = until(seen, t), conditions.get(id_)
        if condition is None:
            if until_t <= t:
                continue
        elif until_t > t < condition.until_t and condition.holds and rank == condition.raised:
            condition.count += 1
            condition.until_t = until_t
            continue
        looked.append((id_, found(seen, t) if until_t > t else None))
    return looked


def _usd(event: Settled) -> float | None:
    """Return the larger of the reported cost and the price of the tokens.

    Prices of purchases do not count, because purchases need approval.
    """
    if event.type in PURCHASES:
        return None if event.priced_nano is None else event.priced_nano / NANO
    if event.priced_nano is None:
        return event.cost_usd
    return max(event.priced_nano / NANO, event.cost_usd or 0.0)


def _sample(event: Settled) -> Sample:
    return Sample(
        None if event.latency_ms is None else event.latency_ms / 1000,
        _usd(event),
        None if event.tokens is None else float(event.tokens.input + event.tokens.output),
    )
