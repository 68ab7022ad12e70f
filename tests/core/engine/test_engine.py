from collections.abc import Callable, Sequence

import pytest

from safetyd.core.action_types import Kind
from safetyd.core.actor import Guard, hearing, on
from safetyd.core.engine.engine import MAX_CASCADE, Engine, EngineError
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import Stopped
from safetyd.core.guards.gate.gate_config import GateConfig
from safetyd.core.messages.proposal import Target
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict
from safetyd.core.policy import Configured, Policy
from tests.story import ask, at, play, propose, resume, stop


class Odd(Guard):
    """A guard with a given verdict, for tests of failing guards."""

    name = "odd"

    def __init__(self, check: Callable[[], Verdict], caused: Sequence[Event] = ()) -> None:
        self._check = check
        self.hears = hearing(on(Stopped, lambda _: caused))

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:
        return self._check()


def with_guard(guard: Odd) -> Engine:
    engine = Engine(Policy())
    engine._guards = (guard, *engine._guards)
    engine._listeners = {Stopped: (guard.hears[Stopped],)}
    return engine


def test_harmless_proposal_is_allowed_and_must_be_begun_within_a_minute() -> None:
    decision = ask(Engine(Policy()), propose(0))

    assert decision.allowed
    assert decision.reason == "All safety checks passed"
    assert decision.expires_at == at(60)
    assert decision.verdicts == ()


def test_decision_carries_the_seq_of_its_journal_line() -> None:
    engine = Engine(Policy())

    decision, events = engine.decide(propose(0))

    assert [event.seq for event in events] == [decision.seq] == [1]


def test_same_id_and_content_gets_the_same_answer_and_no_second_line() -> None:
    engine = Engine(Policy())
    first = ask(engine, propose(0))

    decision, events = engine.decide(propose(5))

    assert decision is first
    assert events == ()


def test_same_id_with_other_content_is_a_conflict() -> None:
    engine = Engine(Policy())
    ask(engine, propose(0))

    decision, events = engine.decide(propose(1, digest="sha256:d2"))

    assert (decision.decision, decision.cause) == (Severity.BLOCK, "conflict")
    assert isinstance(events[0], Decided)
    assert not events[0].first


def test_conflict_does_not_replace_the_first_answer() -> None:
    engine = Engine(Policy())
    first = ask(engine, propose(0))
    ask(engine, propose(1, digest="sha256:d2"))

    assert ask(engine, propose(2)) is first


def test_another_agents_equal_id_is_its_own() -> None:
    engine = Engine(Policy())
    ask(engine, propose(0))

    assert ask(engine, propose(1, agent="ops", digest="sha256:d2")).allowed


def test_remembered_allow_is_not_given_again_during_a_stop() -> None:
    engine = Engine(Policy())
    play(engine, propose(0), stop(1))

    decision = ask(engine, propose(2))

    assert decision.cause == "stopped"


def test_remembered_allow_is_given_again_after_the_stop() -> None:
    engine = Engine(Policy())
    first = ask(engine, propose(0))
    play(engine, stop(1), resume(2))

    assert ask(engine, propose(3)) is first


def test_remembered_block_is_given_again_during_a_stop() -> None:
    engine = Engine(Policy())
    first = ask(engine, propose(0, type="run_shell", text="rm -rf /"))
    play(engine, stop(1))

    assert ask(engine, propose(2, type="run_shell", text="rm -rf /")) is first


def test_an_expired_allow_is_decided_again() -> None:
    engine = Engine(Policy())
    ask(engine, propose(0))

    decision, events = engine.decide(propose(60))

    assert decision.expires_at == at(120)
    assert len(events) == 1


def test_dry_run_is_journalled_and_not_remembered() -> None:
    engine = Engine(Policy())

    _, events = engine.decide(propose(0, dry_run=True))

    assert isinstance(events[0], Decided)
    assert not events[0].first
    assert ask(engine, propose(1, digest="sha256:other")).cause == "policy"


def test_dry_run_of_a_known_id_is_an_opinion_of_now() -> None:
    engine = Engine(Policy())
    play(engine, propose(0), stop(1))

    assert ask(engine, propose(2, dry_run=True)).cause == "stopped"


def test_guard_that_raises_blocks_and_is_named() -> None:
    def fail() -> Verdict:
        raise ZeroDivisionError("no ratio")

    decision = ask(with_guard(Odd(fail)), propose(0))

    assert (decision.decision, decision.cause) == (Severity.BLOCK, "guard_error")
    assert decision.triggered_rules == ("odd.failed",)
    assert "no ratio" in decision.reason


def test_all_guards_judge_and_the_strictest_gives_the_reason() -> None:
    asks = Verdict("odd", Severity.ASK, "odd.asks", "odd would ask")
    engine = with_guard(Odd(lambda: asks))

    decision = ask(engine, propose(0, type="run_shell", text="rm -rf /"))

    assert decision.decision is Severity.BLOCK
    rules = "odd.asks", "classify.high", "gate.blocklist:rm_rf", "gate.shell:irreversible"
    assert decision.triggered_rules == rules
    assert decision.reason == decision.verdicts[2].reason


def test_endless_cascade_ends_the_engine() -> None:
    engine = with_guard(Odd(lambda: ALLOWED, caused=(stop(0), stop(0))))

    with pytest.raises(EngineError, match=f"more than {MAX_CASCADE} events"):
        engine.handle(stop(0))


def test_replay_refuses_a_gap() -> None:
    events = play(Engine(Policy()), propose(0), propose(1, id="p2"))

    with pytest.raises(EngineError, match="event 2 follows 0"):
        Engine(Policy()).replay(events[1:])


def test_typed_password_is_masked_in_the_journal() -> None:
    engine = Engine(Policy())
    secret = propose(0, type="type", text="hunter2hunter", target=Target(label="Password"))

    decision, events = engine.decide(secret)

    assert decision.decision is Severity.ASK
    assert b"hunter2" not in encode(events[0])
    assert b"[masked, 13 characters]" in encode(events[0])


def test_conflicting_password_is_masked_too() -> None:
    engine = Engine(Policy())
    ask(engine, propose(0))

    _, events = engine.decide(
        propose(1, type="type", text="hunter2", target=Target(label="Token"), digest="sha256:d2")
    )

    assert b"hunter2" not in encode(events[0])


def test_new_rules_keep_the_state() -> None:
    engine = Engine(Policy())
    play(engine, stop(0), propose(1))
    policy = Policy(mode="development", gate=GateConfig(loop_threshold=5))

    events = engine.handle(
        Configured(at=at(2), t=2, policy=policy, digest=policy.digest(), version="1", why="reload")
    )

    assert isinstance(events[1], SafetyEvent)
    decision = ask(engine, propose(3, id="p2"))
    assert (decision.cause, decision.mode) == ("stopped", "development")
    assert decision.policy == policy.digest()


def test_actor_unknown_to_the_checkpoint_begins_empty() -> None:
    engine = Engine(Policy())
    play(engine, stop(0))
    checkpoint = engine.save()()
    del checkpoint.actors["stop"]

    assert Engine.restore(checkpoint).stop.stops == ()


@pytest.mark.req("S1.1")
def test_guards_are_named_in_the_order_they_are_asked() -> None:
    names = (
        "stop keys pause mode safe_mode classify gate host_files scores iterations cooldown "
        "rate budget breaker anomaly"
    )

    assert Engine(Policy()).guard_names == tuple(names.split())
