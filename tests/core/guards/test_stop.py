import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import Stopped
from safetyd.core.policy import Policy
from tests.story import ask, at, play, propose, resume, stop


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


@pytest.mark.parametrize(
    ("story", "rules"),
    [
        ((stop(0, agent="ops"),), ()),
        ((stop(0, agent="code"),), ("stop.operator",)),
        ((stop(0), stop(1, "file:/x"), resume(2)), ("stop.file",)),
        ((stop(0), stop(1, "file:/x"), resume(2, "operator", "file:/x")), ()),
        ((stop(0), stop(1, agent="code"), resume(2, agent="code")), ("stop.operator",)),
        # What was pressed after the resume holds, in whatever order it is written.
        ((stop(0, epoch=1), stop(1, epoch=3), resume(2, epoch=2)), ("stop.operator",)),
        ((stop(0, epoch=3), stop(1, epoch=1), resume(2, epoch=2)), ("stop.operator",)),
    ],
)
def test_a_stop_holds_its_agent_until_its_source_resumes(
    story: tuple[Event, ...], rules: tuple[str, ...]
) -> None:
    engine = Engine(Policy())
    play(engine, *story)

    assert ask(engine, propose(3)).triggered_rules == rules
