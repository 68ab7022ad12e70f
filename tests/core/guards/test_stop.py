import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.events.guard_events import Stopped
from safetyd.core.guards.stop import StopGuard
from safetyd.core.policy import Policy
from tests.story import ask, at, play, propose, resume, stop, tick


@pytest.mark.req("S2.46")
@pytest.mark.req("S2.24")
def test_stop_blocks_everything_reads_included() -> None:
    engine = Engine(Policy())
    play(engine, stop(120))

    decision = ask(engine, propose(121, type="read_file"))

    assert decision.cause == "stopped"
    assert decision.triggered_rules == ("stop.operator",)
    assert decision.reason == "emergency stop is active since 12:02Z by alice: drill"


def test_stop_without_a_reason_says_who_and_when() -> None:
    engine = Engine(Policy())
    play(engine, Stopped(at=at(0), t=0, source="file:/x", by="file", epoch=1))

    decision = ask(engine, propose(1))

    assert decision.reason == "emergency stop is active since 12:00Z by file"
    assert decision.triggered_rules == ("stop.file",)


def test_stop_of_one_agent_leaves_the_others() -> None:
    engine = Engine(Policy())
    play(engine, stop(0, agent="code"))

    assert ask(engine, propose(1, agent="code")).cause == "stopped"
    assert ask(engine, propose(1, agent="ops")).allowed


def test_sources_are_kept_apart() -> None:
    engine = Engine(Policy())
    play(engine, stop(0, "operator"), stop(1, "file:/x"), resume(2, "operator"))

    assert ask(engine, propose(3)).triggered_rules == ("stop.file",)


def test_clearing_the_last_source_lets_go() -> None:
    engine = Engine(Policy())
    play(engine, stop(0, "operator"), stop(1, "file:/x"), resume(2, "operator", "file:/x"))

    assert ask(engine, propose(3)).allowed


def test_resuming_one_agent_leaves_the_global_stop() -> None:
    engine = Engine(Policy())
    play(engine, stop(0), stop(1, agent="code"), resume(2, agent="code"))

    assert ask(engine, propose(3)).cause == "stopped"


@pytest.mark.req("S2.27")
def test_switched_off_environment_is_its_own_cause() -> None:
    engine = Engine(Policy())
    play(
        engine,
        Stopped(
            at=at(0),
            t=0,
            source="environment",
            by="environment",
            reason="SAFETYD_ENABLED=false",
            epoch=1,
        ),
    )

    decision = ask(engine, propose(1))

    assert (decision.cause, decision.reason) == ("disabled", "disabled: SAFETYD_ENABLED=false")


def test_epoch_never_goes_back() -> None:
    engine = Engine(Policy())
    play(engine, stop(0, epoch=7), resume(1, epoch=3), stop(2, epoch=5))

    assert engine.stop.epoch == 7


def test_other_events_change_nothing() -> None:
    guard = StopGuard()

    assert guard.observe(tick(0)) == ()
    assert guard.stops == ()


def test_resume_does_not_undo_a_stop_that_was_pressed_after_it() -> None:
    engine = Engine(Policy())
    play(engine, stop(0, epoch=1), stop(1, epoch=3), resume(2, epoch=2))

    assert ask(engine, propose(3)).cause == "stopped"


def test_older_stop_that_is_written_later_does_not_undo_the_newer() -> None:
    engine = Engine(Policy())
    play(engine, stop(0, epoch=3), stop(1, epoch=1), resume(2, epoch=2))

    assert ask(engine, propose(3)).cause == "stopped"
