"""Anomaly guard: reports unusual behaviour. Severe cases pause the agent or stop all agents.

Detectors check proposals (except dry runs and repeated ids), outcomes, reported metrics and
breakers. A proposal that raises a severe finding is blocked. Later proposals are blocked by the
pause or the stop.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import msgspec

from safetyd.core.action_types import Kind
from safetyd.core.actor import Guard, hearing, on
from safetyd.core.anonymous_pool import ANONYMOUS
from safetyd.core.events.decision_events import Decided, Proposed, Reported, Settled
from safetyd.core.events.event import Event, Moment, Ticked
from safetyd.core.events.guard_events import (
    AnomalyFound,
    BreakerMoved,
    BudgetRaised,
    CostStruck,
    Forgotten,
    NameForgotten,
    Paused,
    PersonSeen,
    Resumed,
    SafeModeEntered,
    SafeModeExited,
    Stopped,
    Unpaused,
)
from safetyd.core.guards.anomaly.agent_profile import (
    AgentProfile,
    AnomalyConfig,
    Detectors,
    ProfileGauges,
)
from safetyd.core.guards.anomaly.findings import (
    SEVERE,
    Concern,
    FoundCondition,
    Looked,
    begun,
    response,
    would_raise,
)
from safetyd.core.guards.anomaly.measures import Measure
from safetyd.core.guards.anomaly.presence import HumanConfig, Presence, by_a_person, nobody_for
from safetyd.core.guards.anomaly.usage_detectors import Trips, trips_of
from safetyd.core.messages.telemetry import Commit, Iteration, Metrics
from safetyd.core.messages.verdict import ALLOW, ALLOWED, Severity, Verdict, all_of

MAX_FINDINGS: Final = 100


class AnomalyState(msgspec.Struct):
    agents: dict[str, AgentProfile] = {}
    trips: dict[str, Trips] = {}  # by breaker, least recently tripped first
    people: Presence = msgspec.field(default_factory=Presence)
    findings: list[AnomalyFound] = []
    epoch: int = 0  # the epoch of the last stop or resume


class AnomalyGuard(Guard):
    name = "anomaly"
    _state: AnomalyState

    def __init__(self, config: AnomalyConfig, human: HumanConfig) -> None:
        self._config = config
        self._human = human
        self._detectors = Detectors(config)
        self._of_hosts = Detectors(config.for_hosts())
        self._severe = self._detectors.severe or self._of_hosts.severe
        self._state = AnomalyState()
        self.hears = hearing(
            on(Decided, self._decided),
            on(Settled, self._settled),
            on(Reported, self._reported),
            on(BreakerMoved, self._tripped),
            on(AnomalyFound, self._found),
            on(Ticked, self._alone),
            on(PersonSeen, self._done),
            on(BudgetRaised, self._done),
            on(CostStruck, self._done),
            on(Stopped, self._done),
            on(Resumed, self._done),
            on(Paused, self._done),
            on(Unpaused, self._done),
            on(SafeModeEntered, self._done),
            on(SafeModeExited, self._done),
            on(Forgotten, self._done),
            on(NameForgotten, self._gone),
        )

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(self._state.agents)

    @property
    def findings(self) -> tuple[AnomalyFound, ...]:
        """Return the last findings, oldest first."""
        return tuple(self._state.findings)

    def gauges(self, agent: str, t: float) -> ProfileGauges:
        known = self._state.agents.get(agent) or AgentProfile()
        return known.gauges(t, self._config.error_rate.at_least)

    def holding(self, agent: str, t: float) -> dict[str, int]:
        """Return an agent's conditions that hold, and how often each was seen."""
        return (self._state.agents.get(agent) or AgentProfile()).holding(t)

    def measures(
        self, agent: str, t: float, only: Collection[str] | None = None
    ) -> Iterator[Measure]:
        """Yield the numbers that detectors compare for an agent. `only` selects detectors."""
        known = self._state.agents.get(agent)
        if known is not None:
            for measure in self._detectors.measures(known, t, only):
                yield msgspec.structs.replace(measure, agent=agent)

    def trips(self, found: AnomalyFound, t: float) -> Measure | None:
        """Return how often the breaker of a finding opened, if that is still stored."""
        for whose in (found.agent or "", ANONYMOUS):
            if trips := self._state.trips.get(f"{whose} {found.breaker}"):
                measure = self._config.breaker_oscillation.measure(found.breaker or "", trips, t)
                return msgspec.structs.replace(measure, agent=found.agent)
        return None

    def since_human_s(self, t: float) -> float:
        return self._state.people.away_s(t)

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:
        if self._severe and (blocked := self._blocked(proposed, kind)):
            return blocked
        if self._human.confirm_after_h and kind.reversibility == "irreversible":
            return self._unattended(proposed.t)
        return ALLOWED

    def check_again(self, proposed: Proposed, kind: Kind) -> Verdict:  # noqa: ARG002
        return ALLOWED  # the proposal was checked when it was made

    def now(self, decided: Decided, moment: Moment) -> str:
        holding = self.holding(decided.agent, moment.t).items()
        said = (f"{id_} is active, seen {count} times" for id_, count in holding)
        return ", ".join(said) or "nothing unusual"

    def _blocked(self, proposed: Proposed, kind: Kind) -> Verdict | None:
        """Return a block if this proposal would raise a severe finding."""
        agent, reads = self._state.agents.get(proposed.agent) or AgentProfile(), kind.read_only
        if proposed.host and reads:
            return None
        history, detectors = agent.history.copy(), self._for(proposed)
        detectors.remember(history, proposed, kind.type, reads=reads)
        skewed = [(id_, found) for id_, found in detectors.skewed(proposed) if found]
        severe = [
            (f"anomaly.{id_}", found)
            for id_, found in (*detectors.holding(history, reads=reads), *skewed)
            if found.severity in SEVERE
            if would_raise(agent.conditions.get(id_), proposed.t, found)
        ]
        if not severe:
            return None
        (rule, first), *others = severe
        also = tuple(other for other, _ in others)
        remedy = all_of(found.remedy for _, found in severe)
        return Verdict(
            "anomaly", Severity.BLOCK, rule, first.message, "anomaly", also, remedy=remedy
        )

    def _unattended(self, t: float) -> Verdict:
        if not self._state.people.away(self._human.confirm_after_h, t):
            return ALLOWED
        reason = f"{nobody_for(self.since_human_s(t))}: irreversible actions need approval"
        return Verdict(
            "anomaly",
            Severity.ASK,
            "human.confirm_after_h",
            reason,
            remedy="after an operator gives a command, such as `safetyd ack`",
        )

    def _decided(self, event: Decided) -> Sequence[Event]:
        if event.verdicts and event.stranger:
            return ()
        agent = self._agent(event.agent)
        reads = event.reversibility == "read_only"
        if event.host and reads:
            return ()
        detectors = self._for(event)
        detectors.remember(agent.history, event, event.type, reads=reads)
        looked = detectors.proposed(agent, reads=reads)
        if event.proposal.at is not None:
            looked += detectors.skewed(event)
        if event.type == "dispatch" and event.decision is ALLOW:
            numbers = agent.counted()
            numbers.dispatches.add(event.t, 1.0)
            looked += self._detectors.iterated(numbers, event.t)
        if not looked:
            return ()
        return self._raised(event, event.agent, begun(event.t, agent.conditions, looked))

    def _settled(self, event: Settled) -> Sequence[Event]:
        agent = self._state.agents.get(event.agent)
        if agent is None:
            return ()
        detectors = self._for(event)
        looked = detectors.settled(agent, event)
        baseline = agent.baseline(event.model or "")
        compared = detectors.compared(baseline, event)
        if not looked and not compared:
            return ()
        found = begun(event.t, agent.conditions, looked)
        found += begun(event.t, baseline.conditions, compared)
        return self._raised(event, event.agent, found)

    def _reported(self, event: Reported) -> Sequence[Event]:
        # The keys guard limits anonymous names only in proposals, so reports must not add any.
        if event.keyless and event.agent not in self._state.agents:
            return ()
        agent = self._agent(event.agent)
        looked: list[Looked] = []
        match event.telemetry:
            case Iteration():
                numbers = agent.counted()
                numbers.rounds.add(event.t, 1.0)
                looked = self._detectors.iterated(numbers, event.t)
            case Metrics() as metrics:
                looked = self._detectors.told(agent.counted(), metrics, event.t)
            case Commit(files_changed=int(files)):
                numbers = agent.counted()
                numbers.files = files
                looked = self._detectors.committed(numbers, event.t)
        if not looked:
            return ()
        return self._raised(event, event.agent, begun(event.t, agent.conditions, looked))

    def _tripped(self, event: BreakerMoved) -> Sequence[Event]:
        detector = self._config.breaker_oscillation
        if not detector.enabled or event.state != "open":
            return ()
        whose = event.agent or (ANONYMOUS if event.keyless else "")
        trips = trips_of(self._state.trips, f"{whose} {event.breaker}")
        trips.add(event.t, detector.trips)
        looked: list[Looked] = [(detector.id, detector.found(event.breaker, trips, event.t))]
        found = begun(event.t, trips.conditions, looked)
        return self._raised(event, event.agent, found, event.breaker)

    def _alone(self, tick: Ticked) -> Sequence[Event]:
        """Report that no operator is present, and enter safe mode if configured."""
        people, detector = self._state.people, self._config.no_human
        if people.seen_t is None:
            return (PersonSeen(at=tick.at, t=tick.t, by="safetyd", how="first start"),)
        caused: list[Event] = []
        if detector.enabled and (found := detector.found(people, tick.t)):
            caused += response(tick, detector.id, found, Concern(self._state.epoch))
        if not people.safe_mode and people.away(self._human.safe_mode_after_h, tick.t):
            reason = nobody_for(people.away_s(tick.t))
            caused.append(SafeModeEntered(at=tick.at, t=tick.t, by="safetyd", reason=reason))
        return caused

    def _found(self, event: AnomalyFound) -> None:
        self._state.findings.append(event)
        del self._state.findings[:-MAX_FINDINGS]
        if event.rule == f"anomaly.{self._config.no_human.id}":
            self._state.people.told_t = event.t

    def _done(self, event: Event) -> None:
        """Record actions of operators and of other guards."""
        if by_a_person(event):
            self._state.people.see(event.t)
        match event:
            case Stopped() | Resumed():
                self._state.epoch = max(self._state.epoch, event.epoch)
            case SafeModeEntered(agent=None):
                self._state.people.safe_mode = True
            case SafeModeExited(agent=None):
                self._state.people.safe_mode = False

    def _gone(self, event: NameForgotten) -> None:
        self._state.agents.pop(event.agent, None)

    def _for(self, event: Proposed | Decided | Settled) -> Detectors:
        return self._of_hosts if event.host else self._detectors

    def _agent(self, name: str) -> AgentProfile:
        agent = self._state.agents.get(name)
        if agent is None:
            agent = self._state.agents[name] = AgentProfile()
        return agent

    def _raised(
        self,
        event: Event,
        agent: str | None,
        found: Sequence[tuple[str, FoundCondition]],
        breaker: str | None = None,
    ) -> Sequence[Event]:
        """Return the events that follow from new conditions."""
        if not found:
            return ()
        concern = Concern(self._state.epoch, agent, breaker)
        return [e for id_, one in found for e in response(event, id_, one, concern)]
