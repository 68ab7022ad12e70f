"""An event in, everything it caused out: the one place where guards are asked and state changes."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from safetyd.core.actor import Actor, Guard
from safetyd.core.decision import Decision
from safetyd.core.events import Decided, Event, Proposed
from safetyd.core.guards import chain
from safetyd.core.guards.keys import KeysGuard
from safetyd.core.guards.stop import StopGuard
from safetyd.core.kinds import Kind, Kinds
from safetyd.core.policy import Configured, Policy
from safetyd.core.recall import Recall
from safetyd.core.reporter import Reporter
from safetyd.core.text import masked
from safetyd.core.verdict import ALLOWED, Severity, Verdict, strictest

MAX_CASCADE: Final = 1000
SCHEMA: Final = 1


class EngineError(Exception):
    """The rules themselves went wrong; the process must end and start from its journal."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the engine knows after event `seq`."""

    schema: int
    seq: int
    policy: Policy
    actors: dict[str, bytes]


class Engine:
    """The core as one object. Only one task may touch it."""

    def __init__(self, policy: Policy) -> None:
        self.seq = 0
        self._build(policy)

    @property
    def guard_names(self) -> tuple[str, ...]:
        return tuple(guard.name for guard in self._guards)

    def decide(self, proposed: Proposed) -> tuple[Decision, Sequence[Event]]:
        """Return the answer, and what must be journalled before anybody hears it."""
        known = self.recall.find(proposed)
        if known is None or proposed.proposal.dry_run:
            return self._record(self._judge(proposed, first=not proposed.proposal.dry_run))
        if known.digest != proposed.digest:
            return self._record(self._judge(proposed, (_conflict(known),), first=False))
        if known.allowed and (verdict := self._held(proposed)) is not ALLOWED:
            return self._record(self._judge(proposed, (verdict,), first=False))
        return known, ()

    def handle(self, event: Event) -> list[Event]:
        """Return the lasting events among `event` and everything it caused, in order."""
        todo = [event]
        lasting: list[Event] = []
        for current in todo:
            if len(todo) > MAX_CASCADE:
                raise EngineError(f"{type(event).__name__} set off more than {MAX_CASCADE} events")
            if current.lasting:
                self.seq += 1
                current.seq = self.seq
                lasting.append(current)
            for observe in self._listeners.get(type(current), ()):
                todo.extend(observe(current))
            if isinstance(current, Configured):
                self._reconfigure(current.policy)
        return lasting

    def replay(self, journal: Iterable[Event]) -> None:
        """Rebuild state. Consequences are not recomputed: the journal has them."""
        for event in journal:
            if event.seq != self.seq + 1:
                raise EngineError(f"event {event.seq} follows {self.seq}: the journal has a gap")
            self.seq = event.seq
            for observe in self._listeners.get(type(event), ()):
                observe(event)
            if isinstance(event, Decided):
                self.recall.remember(event)
            elif isinstance(event, Configured):
                self._reconfigure(event.policy)

    def save(self) -> Callable[[], Checkpoint]:
        """Freeze everything now; the function that is returned encodes it, in another thread."""
        saved = {actor.name: actor.save() for actor in self._actors}
        saved["recall"] = self.recall.save()
        seq, policy = self.seq, self.policy
        return lambda: Checkpoint(
            schema=SCHEMA,
            seq=seq,
            policy=policy,
            actors={name: encode() for name, encode in saved.items()},
        )

    @classmethod
    def restore(cls, checkpoint: Checkpoint) -> "Engine":
        """Return an engine that knows what the saved one knew."""
        engine = cls(checkpoint.policy)
        engine.seq = checkpoint.seq
        engine._load(checkpoint.actors)
        return engine

    def _build(self, policy: Policy) -> None:
        self.policy = policy
        self.policy_digest = policy.digest()
        self.stop = StopGuard()
        self.keys = KeysGuard(policy.max_agents)
        self.recall = Recall(policy.decisions, policy.mode, self.policy_digest)
        self._kinds = Kinds(policy.types, policy.profile)
        self._guards: tuple[Guard, ...] = chain(policy, self.stop, self.keys)
        self._actors: tuple[Actor, ...] = (*self._guards, Reporter())
        self._listeners = _listeners(self._actors)

    def _reconfigure(self, policy: Policy) -> None:
        """Carry all state over to actors that follow the new rules."""
        if policy != self.policy:
            saved = self.save()().actors
            self._build(policy)
            self._load(saved)

    def _load(self, saved: dict[str, bytes]) -> None:
        for actor in self._actors:
            # An actor that is newer than the checkpoint begins empty.
            if actor.name in saved:
                actor.load(saved[actor.name])
        self.recall.load(saved["recall"])

    def _record(self, decided: Decided) -> tuple[Decision, Sequence[Event]]:
        events = self.handle(decided)
        return self.recall.remember(decided), events

    def _judge(self, proposed: Proposed, ruled: Sequence[Verdict] = (), *, first: bool) -> Decided:
        kind = self._kinds.of(proposed.proposal)
        restricting = list(ruled)
        for guard in self._guards:
            verdict = _opinion(guard, proposed, kind)
            if verdict is not ALLOWED:
                restricting.append(verdict)
        return _decided(proposed, kind, tuple(restricting), first=first)

    def _held(self, proposed: Proposed) -> Verdict:
        """Return what now forbids an allow that was given before."""
        return _opinion(self.stop, proposed, self._kinds.of(proposed.proposal))


def _listeners(
    actors: Iterable[Actor],
) -> dict[type[Event], tuple[Callable[[Event], Sequence[Event]], ...]]:
    table: dict[type[Event], tuple[Callable[[Event], Sequence[Event]], ...]] = {}
    for actor in actors:
        for kind in actor.hears:
            table[kind] = (*table.get(kind, ()), actor.observe)
    return table


def _opinion(guard: Guard, proposed: Proposed, kind: Kind) -> Verdict:
    try:
        return guard.check(proposed, kind)
    except Exception as exc:  # noqa: BLE001 - a guard that cannot answer must block
        rule = f"{guard.name}.failed"
        return Verdict(guard.name, Severity.BLOCK, rule, f"{rule}: {exc!r}", cause="guard_error")


def _conflict(known: Decision) -> Verdict:
    reason = f"id {known.id} was used for another proposal at {known.at:%H:%M:%S}Z; use a new id"
    return Verdict("recall", Severity.BLOCK, "recall.conflict", reason, cause="conflict")


def _decided(
    proposed: Proposed, kind: Kind, verdicts: tuple[Verdict, ...], *, first: bool
) -> Decided:
    proposal = proposed.proposal
    if verdicts and any(verdict.masks_text for verdict in verdicts):
        proposal = msgspec.structs.replace(proposal, text=masked(proposal.text))
    return Decided(
        at=proposed.at,
        t=proposed.t,
        agent=proposed.agent,
        proposal=proposal,
        digest=proposed.digest,
        decision=strictest(verdicts).decision if verdicts else Severity.ALLOW,
        type=kind.type,
        tier=kind.tier,
        reversibility=kind.reversibility,
        risk=kind.risk,
        keyless=proposed.keyless,
        verdicts=verdicts,
        first=first,
    )
