"""Anomalies: what is unusual is told, and what is dangerously so pauses its agent or stops all.

Detectors look at first decisions, outcomes, what agents say of themselves, and breakers. The
proposal that raises a severe finding is itself blocked; what comes after is for pause and stop.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from safetyd.core.detectors.agent import Agent, AnomalyConfig, Detectors, Gauges
from safetyd.core.detectors.condition import SEVERE, Condition
from safetyd.core.detectors.people import HumanConfig, People, by_a_person, nobody_for
from safetyd.core.detectors.proposals import Seen, seen_of
from safetyd.core.detectors.response import Concern, Looked, raised, response, would_raise
from safetyd.core.detectors.trips import Trips, trips_of
from safetyd.core.events import (
    AnomalyFound,
    BreakerMoved,
    Decided,
    Event,
    Forgotten,
    Paused,
    PersonSeen,
    Proposed,
    Reported,
    Resumed,
    SafeModeEntered,
    SafeModeExited,
    Settled,
    Stopped,
    Ticked,
    Unpaused,
)
from safetyd.core.kinds import Kind
from safetyd.core.telemetry import Commit, Iteration, Metrics
from safetyd.core.verdict import ALLOWED, Severity, Verdict

MAX_FINDINGS: Final = 100


class AnomalyState(msgspec.Struct):
    agents: dict[str, Agent] = {}
    trips: dict[str, Trips] = {}  # by breaker, the one that tripped longest ago first
    people: People = msgspec.field(default_factory=People)
    findings: list[AnomalyFound] = []
    epoch: int = 0  # of stops and resumes


class AnomalyGuard:
    name = "anomaly"
    hears: tuple[type[Event], ...] = (
        Decided,
        Settled,
        Reported,
        BreakerMoved,
        AnomalyFound,
        Ticked,
        PersonSeen,
        Stopped,
        Resumed,
        Paused,
        Unpaused,
        SafeModeEntered,
        SafeModeExited,
        Forgotten,
    )

    def __init__(self, config: AnomalyConfig, human: HumanConfig) -> None:
        self._config = config
        self._human = human
        self._detectors = Detectors(config)
        self._severe = self._detectors.severe
        self._state = AnomalyState()

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(self._state.agents)

    @property
    def findings(self) -> tuple[AnomalyFound, ...]:
        """Return the last findings, oldest first."""
        return tuple(self._state.findings)

    def gauges(self, agent: str, t: float) -> Gauges:
        return (self._state.agents.get(agent) or Agent()).gauges(t)

    def holding(self, agent: str, t: float) -> dict[str, int]:
        """Return an agent's conditions that hold, and how often each was seen to so far."""
        return (self._state.agents.get(agent) or Agent()).holding(t)

    def since_human_s(self, t: float) -> float:
        return self._state.people.away_s(t)

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:
        if self._severe and (blocked := self._blocked(proposed, kind)):
            return blocked
        if self._human.confirm_after_h and kind.reversibility == "irreversible":
            return self._unattended(proposed.t)
        return ALLOWED

    def observe(self, event: Event) -> Sequence[Event]:
        if self._state.people.seen_t is None and event.lasting:
            self._state.people.see(event.t)  # somebody started this
        match event:
            case Decided():
                return self._decided(event) if event.first and not _unknown(event) else ()
            case Settled():
                return self._settled(event)
            case Reported():
                return self._reported(event)
            case BreakerMoved():
                return self._tripped(event) if event.state == "open" else ()
            case AnomalyFound():
                self._found(event)
            case Ticked():
                return self._alone(event)
            case _:
                self._done(event)
        return ()

    def save(self) -> Callable[[], bytes]:
        saved = msgspec.msgpack.encode(self._state)
        return lambda: saved

    def load(self, saved: bytes) -> None:
        self._state = msgspec.msgpack.decode(saved, type=AnomalyState)

    def _blocked(self, proposed: Proposed, kind: Kind) -> Verdict | None:
        """Return a block if this proposal would raise a severe finding."""
        agent = self._state.agents.get(proposed.agent) or Agent()
        seen = _seen(proposed, kind.type, read_only=kind.read_only)
        severe = [
            (f"anomaly.{id_}", found.message)
            for id_, found in self._detectors.proposed(agent, seen)
            if found and found.severity in SEVERE
            if would_raise(agent.conditions.get(id_), seen.t, found)
        ]
        if not severe:
            return None
        (rule, message), *others = severe
        also = tuple(other for other, _ in others)
        return Verdict("anomaly", Severity.BLOCK, rule, message, "anomaly", also)

    def _unattended(self, t: float) -> Verdict:
        if not self._state.people.away(self._human.confirm_after_h, t):
            return ALLOWED
        reason = f"{nobody_for(self.since_human_s(t))}: what cannot be undone is asked about"
        return Verdict("anomaly", Severity.ASK, "human.confirm_after_h", reason)

    def _decided(self, event: Decided) -> Sequence[Event]:
        agent = self._agent(event.agent)
        seen = _seen(event, event.type, read_only=event.reversibility == "read_only")
        looked = self._detectors.proposed(agent, seen)
        self._detectors.remember(agent, seen)
        if event.type == "dispatch" and event.decision is Severity.ALLOW:
            agent.numbers.dispatches.add(event.t, 1.0)
            looked += self._detectors.iterated(agent.numbers, event.t)
        return self._raised(event, agent.conditions, looked, event.agent)

    def _settled(self, event: Settled) -> Sequence[Event]:
        agent = self._state.agents.get(event.agent)
        if agent is None:
            return ()
        looked = self._detectors.settled(agent.numbers, event)
        baseline = agent.baseline(event.model or "")
        compared = self._detectors.compared(baseline, event)
        return [
            *self._raised(event, agent.conditions, looked, event.agent),
            *self._raised(event, baseline.conditions, compared, event.agent),
        ]

    def _reported(self, event: Reported) -> Sequence[Event]:
        # Names without a key are bounded, and only their proposals make them known.
        if event.keyless and event.agent not in self._state.agents:
            return ()
        agent = self._agent(event.agent)
        looked: list[Looked] = []
        match event.telemetry:
            case Iteration():
                agent.numbers.rounds.add(event.t, 1.0)
                looked = self._detectors.iterated(agent.numbers, event.t)
            case Metrics() as metrics:
                looked = self._detectors.told(agent.numbers, metrics, event.t)
            case Commit(files_changed=int(files)):
                agent.numbers.files = files
                looked = self._detectors.committed(agent.numbers, event.t)
        return self._raised(event, agent.conditions, looked, event.agent)

    def _tripped(self, event: BreakerMoved) -> Sequence[Event]:
        detector = self._config.breaker_oscillation
        if not detector.enabled:
            return ()
        trips = trips_of(self._state.trips, f"{event.agent or ''} {event.breaker}")
        trips.add(event.t, detector.trips)
        looked: list[Looked] = [(detector.id, detector.found(event.breaker, trips, event.t))]
        concern = Concern(self._state.epoch, event.agent, event.breaker)
        return raised(event, trips.conditions, looked, concern)

    def _alone(self, tick: Ticked) -> Sequence[Event]:
        """Say that nobody is there, and enter safe mode if that is wished."""
        people, detector = self._state.people, self._config.no_human
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
        """Take note of what an operator or another guard did."""
        if by_a_person(event):
            self._state.people.see(event.t)
        match event:
            case Stopped() | Resumed():
                self._state.epoch = max(self._state.epoch, event.epoch)
            case SafeModeEntered(agent=None):
                self._state.people.safe_mode = True
            case SafeModeExited(agent=None):
                self._state.people.safe_mode = False

    def _agent(self, name: str) -> Agent:
        agent = self._state.agents.get(name)
        if agent is None:
            agent = self._state.agents[name] = Agent()
        return agent

    def _raised(
        self, event: Event, conditions: dict[str, Condition], looked: Sequence[Looked], agent: str
    ) -> list[Event]:
        return raised(event, conditions, looked, Concern(self._state.epoch, agent))


def _seen(event: Proposed | Decided, kind: str, *, read_only: bool) -> Seen:
    return seen_of(event.agent, kind, event.proposal, event.at, event.t, read_only=read_only)


def _unknown(event: Decided) -> bool:
    """Say whether the proposal was refused because its agent's name was one too many."""
    return bool(event.verdicts) and any(v.rule == "keys.agents" for v in event.verdicts)
