"""The engine: it handles an event, and returns it with all events that it caused.

All verdicts and all changes of state are made here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec import UNSET

from safetyd.core.actor import Actor, Handler, counts
from safetyd.core.approvals.final_decisions import Conclusion, conclusions
from safetyd.core.approvals.grant_hints import worded
from safetyd.core.approvals.program_memory import remembered
from safetyd.core.approvals.reachability import Reachability
from safetyd.core.approvals.request import Request
from safetyd.core.approvals.resolution import (
    RequestResolution,
    asked_for,
    links_moved,
    unlifted,
)
from safetyd.core.engine.engine_state import SCHEMA, Checkpoint, EngineState
from safetyd.core.engine.evaluation import conflict, proposed_again, restricting
from safetyd.core.engine.evaluation import decided as judged
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.events.event import Event
from safetyd.core.events.request_events import (
    Answered,
    Approved,
    Cancelled,
    Expired,
    Released,
    Superseded,
)
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import ALLOWED, BLOCK, Verdict, strictest
from safetyd.core.policy import Configured, Policy

MAX_CASCADE: Final = 1000
CONCLUDING: Final = frozenset({Answered, Approved, Released, Expired, Cancelled, Superseded})


class EngineError(Exception):
    """An internal error. The process must exit and restart from its journal."""


class Engine(EngineState):
    """The core as one object. Only one task may use it."""

    def __init__(self, policy: Policy) -> None:
        self._concluded: list[Conclusion] = []
        super().__init__(policy)

    def decide(self, proposed: Proposed) -> tuple[Decision, Sequence[Event]]:
        """Return the decision, and the events to journal before it is sent."""
        if proposed.proposal.dry_run:
            return self._record(self._judge(proposed, first=False))
        own = self.approvals.of_proposal(proposed.agent, proposed.id)
        replaced = self._replaced(proposed, own)
        known = self._known(proposed, own, replaced)
        if known is not None and known.digest != proposed.digest:
            return self._record(self._judge(proposed, (conflict(known),), first=False))
        if known is None or replaced is not None or not self._stands(known, proposed, own):
            superseded = self._supersede(replaced, proposed)
            decision, events = self._record(self._judge(proposed, first=True))
            return decision, [*superseded, *events]
        if known.allowed and (verdict := self._held(proposed)) is not ALLOWED:
            return self._record(self._judge(proposed, (verdict,), first=False))
        return known, ()

    def handle(self, event: Event) -> list[Event]:
        """Process an event. Return the events to journal, in order."""
        todo = [event]
        lasting: list[Event] = []
        for current in todo:
            if len(todo) > MAX_CASCADE:
                raise EngineError(f"{type(event).__name__} caused more than {MAX_CASCADE} events")
            kind = type(current)
            if current.lasting:
                current.seq = self.seq = self.seq + 1
                lasting.append(current)
            for observe in self._listeners.get(kind, ()):
                if caused := observe(current):
                    todo.extend(caused)
            if isinstance(current, Configured):
                self._reconfigure(current.policy)
            elif kind in CONCLUDING:
                todo.extend(self._look_again(current))
                self._concluded += self._conclude(current)
        return lasting

    def take_conclusions(self) -> list[Conclusion]:
        """Return the final decisions since the last call, oldest first."""
        taken, self._concluded = self._concluded, []
        return taken

    def replay(self, journal: Iterable[Event]) -> None:
        """Rebuild the state. Journalled consequences are read, not computed again."""
        for event in journal:
            if event.seq != self.seq + 1:
                raise EngineError(f"event {event.seq} follows {self.seq}: the journal has a gap")
            self.seq = event.seq
            if counts(event):
                self._replay(event)
            if isinstance(event, Decided):
                self.recall.remember(event)
            elif isinstance(event, Configured):
                self._reconfigure(event.policy)
            elif type(event) in CONCLUDING:
                self._conclude(event)

    def _replay(self, event: Event) -> None:
        """Send an event to all actors, with the unjournalled events that it causes."""
        todo = [event]
        for current in todo:
            for observe in self._listeners.get(type(current), ()):
                if caused := observe(current):
                    todo.extend(found for found in caused if not found.lasting)

    def save(self) -> Callable[[], Checkpoint]:
        """Freeze the state. The returned function encodes it and may run in another thread."""
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
        """Return an engine with the saved state."""
        engine = cls(checkpoint.policy)
        engine.seq = checkpoint.seq
        engine._load(checkpoint.actors)
        return engine

    def _build(self, policy: Policy) -> None:
        super()._build(policy)
        self._resolution = RequestResolution(
            self.approvals,
            self.grants,
            self.guards,
            policy.approvals,
            Reachability(policy.telling, self.on_call, self.outbox.busy_until),
            partial(remembered, reader=self.reader, hours=policy.host_rules.remember_programs_h),
        )
        self._listeners = _listeners(self._actors)

    def _reconfigure(self, policy: Policy) -> None:
        """Rebuild all actors with a new policy, and load their state."""
        if policy != self.policy:
            saved = self.save()().actors
            self._build(policy)
            self._load(saved)

    def _load(self, saved: dict[str, bytes]) -> None:
        for actor in self._actors:
            # An actor that is not in the checkpoint starts empty.
            if actor.name in saved:
                actor.load(saved[actor.name])
        self.recall.load(saved["recall"])

    def _record(self, decided: Decided) -> tuple[Decision, Sequence[Event]]:
        events = self.handle(decided) if decided.first else self._write(decided)
        if decided.grants:
            events += [e for used in self.grants.uses(decided) for e in self.handle(used)]
        return self.recall.remember(decided), events

    def _write(self, event: Event) -> list[Event]:
        self.seq += 1
        event.seq = self.seq
        return [event]

    def _judge(self, proposed: Proposed, ruled: Sequence[Verdict] = (), *, first: bool) -> Decided:
        kind = self.facts_of(proposed).kind
        if first and proposed.permission:
            ruled = (asked_for(proposed.proposal, kind), *ruled)
        verdicts = (*ruled, *restricting(self._guards, proposed, kind))
        decided = judged(proposed, kind, verdicts, first=first)
        if not verdicts:
            return decided
        if first:
            involved = self._resolution.involve(proposed, kind, verdicts, self.seq + 1)
            decided.verdicts, decided.asks, decided.uses, decided.grants = involved
            decided.permission = proposed.permission
            decided.decision = strictest(involved.verdicts).decision
        if decided.decision is BLOCK:
            decided.verdicts = tuple(worded(v, decided, kind) for v in decided.verdicts)
        return decided

    def _replaced(self, proposed: Proposed, own: Request | None) -> Request | None:
        """Return the pending request that a proposal replaces, if any.

        That is the request of the proposal that it names in `supersedes`. For a permission request,
        it can also be the one with the same id and other content.
        """
        named = proposed.proposal.supersedes or (proposed.id if proposed.permission else None)
        if not named:
            return None
        same = named == proposed.id
        request = own if same else self.approvals.of_proposal(proposed.agent, named)
        if request is None or not request.pending:
            return None
        return None if same and request.asked.digest == proposed.digest else request

    def _supersede(self, request: Request | None, proposed: Proposed) -> Sequence[Event]:
        if request is None:
            return ()
        return self.handle(
            Superseded(
                at=proposed.at,
                t=proposed.t,
                request_id=request.id,
                agent=proposed.agent,
                by_id=proposed.id,
            )
        )

    def _known(
        self, proposed: Proposed, request: Request | None, replaced: Request | None
    ) -> Decision | None:
        """Return the earlier decision on this id, unless its request is to be replaced.

        A pending decision is remembered until its request ends.
        """
        if request is None or not request.pending:
            return self.recall.find(proposed)
        return None if request is replaced else self._pending(request, proposed)

    def _stands(self, known: Decision, proposed: Proposed, request: Request | None) -> bool:
        """Return whether an earlier decision can be repeated.

        If the id has an unused approval, the proposal is decided again to use the approval.
        """
        if request is not None and request.pending:
            return True
        if known.expires_at is not None and proposed.at >= known.expires_at:
            return False
        if request is None:
            return not self._is_over(known)
        return request.state != "approved" or request.used == proposed.id

    def _pending(self, request: Request, proposed: Proposed) -> Decision:
        """Return the decision on a repeated pending proposal.

        Its cause is `undeliverable` if no channel can deliver the request.
        """
        answer = msgspec.structs.replace(
            self.recall.answer(request.asked), id=proposed.id, expires_at=request.deadline
        )
        if answer.reachable_from and answer.reachable_from <= proposed.at:
            answer = msgspec.structs.replace(answer, reachable_from=UNSET)
        answer = self._in_own_words(answer, request)
        if not self.outbox.undeliverable(request.id):
            return answer
        return msgspec.structs.replace(answer, cause="undeliverable")

    def _is_over(self, known: Decision) -> bool:
        """Return whether the request of a pending decision has ended."""
        request = self.approvals.find(known.request_id or "")
        return known.status == "pending" and (request is None or not request.pending)

    def _look_again(self, event: Event) -> Sequence[Event]:
        """Ask the guards again after an approval.

        Blocks still apply, and so do rules that the operator was not shown.
        """
        request = self.approvals.find(event.request_id) if isinstance(event, Approved) else None
        if request is None or not isinstance(event, Approved):
            return ()
        asked = request.asked
        proposed = proposed_again(asked, event.at, event.t)
        kind = self.kind(asked)
        verdicts = tuple(restricting(self._guards, proposed, kind, again=True))
        verdicts = self._resolution.granted_before(proposed, kind, verdicts, asked.grants)
        if event.moved:
            verdicts = (*verdicts, links_moved(event.moved))
        return (
            Released(
                at=event.at,
                t=event.t,
                request_id=request.id,
                agent=asked.agent,
                id=asked.id,
                verdicts=unlifted(verdicts, request),
                waits=event.waits,
            ),
        )

    def _conclude(self, event: Event) -> list[Conclusion]:
        """Remember and return the final decisions that an event causes."""
        given = []
        for request in self._ended_by(event):
            pending = self.recall.answer(request.asked)
            for decision in conclusions(request, pending, event):
                final = self._in_own_words(decision, request)
                self.recall.keep(final)
                given.append(Conclusion(request, final))
        return given

    def _in_own_words(self, answer: Decision, request: Request) -> Decision:
        """Return a decision with the digest of the proposal that it is about."""
        joined = (
            None if answer.id == request.asked.id else self.recall.last(answer.agent, answer.id)
        )
        return answer if joined is None else msgspec.structs.replace(answer, digest=joined.digest)

    def _ended_by(self, event: Event) -> Iterator[Request]:
        """Yield the requests that an event closed."""
        match event:
            case Expired():
                ids = event.request_ids
            case Released() | Cancelled() | Superseded() | Answered(answer="denied"):
                ids = (event.request_id,)
            case _:
                return
        for id_ in ids:
            request = self.approvals.find(id_)
            # A second answer to a closed request changes nothing.
            if request and request.answered_by(event):
                yield request

    def _held(self, proposed: Proposed) -> Verdict:
        """Return the verdict that now blocks an action that was allowed before, or `ALLOWED`."""
        guards = self.guards.stop, self.guards.pause, self.guards.safe_mode
        return self._first_of(guards, proposed)


def _listeners(actors: Iterable[Actor]) -> dict[type[Event], tuple[Handler, ...]]:
    table: dict[type[Event], tuple[Handler, ...]] = {}
    for actor in actors:
        for kind, act in actor.hears.items():
            table[kind] = (*table.get(kind, ()), act)
    return table
