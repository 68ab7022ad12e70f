"""For any story: an approval is used once, and no answer changes."""

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from safetyd.agents.claims import Claim, claim
from safetyd.core.approvals.request import Answer, ApprovalsConfig, Request, State
from safetyd.core.decision_cache import DecisionsConfig
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.engine_state import Checkpoint
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.guard_events import SafeModeEntered, SafeModeExited
from safetyd.core.events.request_events import Allowed, Answered, Cancelled, Deferred
from safetyd.core.messages.decision import Decision
from safetyd.core.policy import Policy
from safetyd.journal.journals import MemoryJournal
from tests.examples import examples
from tests.story import at, propose, resume, stop, tick

POLICY = Policy(
    decisions=DecisionsConfig(recall_s=120.0),
    approvals=ApprovalsConfig(
        timeout_minutes=2.0,
        queued_timeout_minutes=5.0,
        approved_valid_minutes=4.0,
        max_pending_per_agent=3,
    ),
)

agents = st.sampled_from(["code", "ops"])
ids = st.sampled_from([f"p{n}" for n in range(5)])
texts = st.sampled_from(["git push a", "git push b"])
seconds = st.floats(0, 90)
numbers = st.integers(0, 9)
claimants = st.sampled_from(["x", "y"])

Ended = tuple[State, Answer | None]


class QueueModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.t = 0.0
        self.engine = Engine(POLICY)
        self.journal = MemoryJournal()
        self.asked: list[str] = []
        self.begun: list[tuple[str, str]] = []  # who began what under which approval
        self.ends: dict[str, Ended] = {}
        self.granted: dict[str, str] = {}
        self.listen()

    def listen(self) -> None:
        heard = self.engine._listeners[Allowed]
        self.engine._listeners[Allowed] = (*heard, self.hear)

    def hear(self, event: Event) -> None:
        assert isinstance(event, Allowed)
        request = self.engine.approvals.of_proposal(event.decided.agent, event.decided.id)
        assert request is not None
        self.begun.append((request.id, event.decided.id))

    def now(self, after_s: float) -> Moment:
        self.t += after_s
        return Moment(at(self.t), self.t)

    def happens(self, event: Event) -> None:
        self.wrote(self.engine.handle(event))

    def wrote(self, events: list[Event]) -> None:
        self.journal.write(events)
        for event in events:
            if isinstance(event, Decided) and event.uses is not None:
                self.begun.append((event.uses.request_id, event.id))
            if isinstance(event, Decided) and event.asks is not None and not event.asks.joins:
                self.asked.append(event.asks.request_id)

    def known(self, request_id: str) -> Request:
        request = self.engine.approvals.find(request_id)
        assert request is not None
        return request

    def some_request(self, number: int) -> Request:
        return self.known(self.asked[-1 - number % len(self.asked)])

    @rule(
        after=seconds,
        agent=agents,
        id_=ids,
        text=texts,
        confidence=st.sampled_from([0.95, 0.1]),
        wait=st.booleans(),
        permission=st.booleans(),
        named=st.none() | numbers,
    )
    def propose(self, after, agent, id_, text, confidence, wait, permission, named):  # noqa: PLR0913, PLR0917
        request = self.some_request(named) if self.asked and named is not None else None
        moment = self.now(after)
        proposed = propose(
            moment.t,
            agent,
            id_,
            "push",
            digest=f"sha256:{agent}:{text}",
            text=text,
            confidence=confidence,
            wait=wait,
            request_id=None if request is None else request.id,
        )
        decision, events = self.engine.decide(
            msgspec.structs.replace(proposed, permission=permission)
        )
        self.wrote(list(events))
        self.permitted(decision)

    def permitted(self, decision: Decision) -> None:
        """An action is allowed only by an approval that this proposal used."""
        if not decision.allowed:
            return
        request = self.engine.approvals.find(decision.request_id or "")
        assert request is not None
        assert (request.state, request.used) == ("approved", decision.id)

    @rule(
        after=seconds,
        number=numbers,
        answer=st.sampled_from(["approved", "denied"]),
        by=st.sampled_from(["alice", "bob"]),
        waits=st.booleans(),
    )
    @precondition(lambda self: self.asked)
    def answer(self, after, number, answer, by, waits):
        moment, request = self.now(after), self.some_request(number)
        self.happens(
            Answered(
                at=moment.at,
                t=moment.t,
                request_id=request.id,
                agent=request.agent,
                id=request.asked.id,
                answer=answer,
                by=by,
                via="cli",
                waits=waits,
            )
        )

    @rule(after=seconds, number=numbers, minutes=st.integers(1, 5))
    @precondition(lambda self: self.asked)
    def defer(self, after, number, minutes):
        moment, request = self.now(after), self.some_request(number)
        until = at(moment.t + 60 * minutes)
        self.happens(
            Deferred(at=moment.at, t=moment.t, request_id=request.id, by="alice", until=until)
        )

    @rule(after=seconds, number=numbers)
    @precondition(lambda self: self.asked)
    def cancel(self, after, number):
        moment, request = self.now(after), self.some_request(number)
        self.happens(
            Cancelled(at=moment.at, t=moment.t, request_id=request.id, by="alice", via="cli")
        )

    @rule(after=seconds, number=numbers, own=st.booleans(), id_=ids, claimant=claimants)
    @precondition(lambda self: self.asked)
    def claim(self, after, number, own, id_, claimant):
        moment, request = self.now(after), self.some_request(number)
        wanted = Claim(
            id=request.asked.id if own else id_, digest=request.asked.digest, claimant=claimant
        )
        known = self.engine.approvals.of_proposal(request.agent, wanted.id)
        carried = claim(request.agent, wanted, "nonce")(self.engine, moment)
        for event in carried.events:
            self.happens(event)
        if carried.answer.granted:
            assert known is not None
            assert self.granted.setdefault(known.id, claimant) == claimant

    @rule(stops=st.booleans())
    def stop_or_resume(self, stops):
        moment = self.now(1)
        self.happens(stop(moment.t) if stops else resume(moment.t))

    @rule(enters=st.booleans(), agent=st.none() | agents)
    def safe_mode(self, enters, agent):
        moment = self.now(1)
        kind = SafeModeEntered if enters else SafeModeExited
        self.happens(kind(at=moment.at, t=moment.t, by="alice", agent=agent))

    @rule(after=st.floats(0, 300))
    def tick(self, after):
        self.happens(tick(self.now(after).t))

    @rule()
    def crash_and_restore(self):
        self.teardown()
        encoded = msgspec.msgpack.encode(self.engine.save()())
        self.engine = Engine.restore(msgspec.msgpack.decode(encoded, type=Checkpoint))
        self.listen()

    @invariant()
    def an_approval_is_used_at_most_once(self):
        approvals = [request_id for request_id, _ in self.begun]
        assert len(approvals) == len(set(approvals))

    @invariant()
    def nothing_is_begun_without_a_yes(self):
        for request_id, id_ in self.begun:
            request = self.known(request_id)
            assert (request.state, request.used) == ("approved", id_)

    @invariant()
    def the_first_answer_stays(self):
        for id_ in self.asked:
            request = self.known(id_)
            if not request.pending:
                assert self.ends.setdefault(id_, (request.state, request.answer)) == (
                    request.state,
                    request.answer,
                )

    def teardown(self) -> None:
        """The journal and a checkpoint give the same state."""
        replayed = Engine(POLICY)
        replayed.replay(self.journal.events())
        restored = Engine.restore(self.engine.save()())
        assert replayed.save()() == self.engine.save()() == restored.save()()
        assert found(replayed) == found(self.engine) == found(restored)


def found(engine: Engine) -> list[object]:
    """Return everything that can be looked up."""
    approvals = engine.approvals
    known = [approvals.of_proposal(agent, f"p{n}") for agent in ("code", "ops") for n in range(5)]
    same = approvals.same_action
    actions = [[*same(r.agent, r.action)] for r in known if r is not None]
    unused = [approvals.unused("code"), approvals.unused("ops")]
    return [known, actions, unused, list(approvals.pending()), approvals.answered()]


QueueModel.TestCase.settings = examples(0.3, stateful_step_count=25)
TestOffice = pytest.mark.req("S3.17", "S3.22", "S3.23")(QueueModel.TestCase)
