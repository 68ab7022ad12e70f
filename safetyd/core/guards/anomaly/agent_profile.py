"""All detectors that look at one agent, and what they remember of it."""

from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

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

MAX_MODELS: Final = 8  # per agent; for one more, the one unused for longest is forgotten

AnyDetector = TypeVar("AnyDetector", bound=Detector)
OfProposals = RapidIdentical | RepeatedAction | LoopActionType | RapidActions


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


class ProfileGauges(msgspec.Struct, frozen=True):
    """An agent's numbers of now, its own words included where they are larger."""

    iterations_per_hour: float
    cost_per_hour_usd: float
    error_ratio: float  # of the last outcomes, once there are enough to tell
    files_per_commit: float  # of the last one
    repeated_action: int  # how often the last action was proposed in a row


class AgentProfile(msgspec.Struct):
    """What is remembered of one agent."""

    history: ProposalHistory = msgspec.field(default_factory=ProposalHistory)
    numbers: Numbers | None = None  # None: there is nothing to count yet
    models: dict[str, Baseline] = {}  # longest unused first
    conditions: dict[str, Condition] = {}

    def counted(self) -> Numbers:
        """Return the numbers, to count something."""
        if self.numbers is None:
            self.numbers = Numbers()
        return self.numbers

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

    def gauges(self, t: float, at_least: int) -> ProfileGauges:
        """Return the numbers of `t`; fewer than `at_least` outcomes tell nothing of errors."""
        numbers = self.numbers or Numbers()
        return ProfileGauges(
            numbers.iterations(t),
            numbers.hourly_cost(t),
            numbers.error_ratio(t, at_least),
            numbers.files_changed(t),
            self.history.in_a_row,
        )


class Detectors:
    """The detectors that are enabled."""

    def __init__(self, config: AnomalyConfig) -> None:
        self._config = config
        self._times, self._gap_s = config.rapid_identical.count, config.rapid_actions.gap_s
        same = _ranked(_enabled(config.rapid_identical, config.repeated_action))
        acts = _ranked(_enabled(config.loop_action_type, config.rapid_actions))
        # By whether a proposal's type is patient, and whether it only reads.
        self._asked = {
            (False, False): same + acts,
            (False, True): same,
            (True, False): acts,
            (True, True): (),
        }
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
        looked_at = (*(one for _, one, _ in self._asked[False, False]), *self._skew)
        return any(one.most_severe in SEVERE for one in looked_at)

    def remember(
        self, history: ProposalHistory, event: Proposed | Decided, kind: str, *, reads: bool
    ) -> None:
        """Take in a proposal; `kind` is its type after aliases."""
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
        """Return what holds of the proposal that was taken in last."""
        asked = self._asked[history.type in PATIENT, reads]
        return [
            (id_, one.found(history)) for id_, one, _ in asked if one.until_t(history) > history.t
        ]

    def proposed(self, agent: AgentProfile, *, reads: bool) -> list[Looked]:
        """Look at the proposal that was taken in last; what holds as before is only counted."""
        history, conditions, t = agent.history, agent.conditions, agent.history.t
        looked: list[Looked] = []
        for id_, one, rank in self._asked[history.type in PATIENT, reads]:
            until_t, condition = one.until_t(history), conditions.get(id_)
            if condition is None:
                if until_t <= t:
                    continue
            elif until_t > t < condition.until_t and condition.holds and rank == condition.raised:
                condition.count += 1
                condition.until_t = until_t
                continue
            looked.append((id_, one.found(history) if until_t > t else None))
        return looked

    def skewed(self, event: Proposed | Decided) -> list[Looked]:
        """Look at the time that a proposal gives."""
        theirs = event.proposal.at
        if theirs is None:
            return []
        return [(one.id, one.found(skew_s(theirs, event.at))) for one in self._skew]

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


def _ranked(detectors: Sequence[OfProposals]) -> tuple[tuple[str, OfProposals, int], ...]:
    """Put each beside what is looked up of it for every proposal."""
    return tuple((one.id, one, RANK[one.most_severe]) for one in detectors)


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
