import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import BreakerMoved
from safetyd.core.policy import Policy
from safetyd.core.reporting.failure_windows import MAX_CALLS
from tests.story import at, outcome, play, propose, tick


def fails(t: float, agent: str = "code", *, ok: bool = False) -> list[Event]:
    id_ = f"{agent}-{t}"
    return [propose(t, agent, id_, dependency="db"), outcome(t, id_, ok=ok, agent=agent)]


def opened(*story: Event) -> Engine:
    engine = Engine(Policy())
    play(engine, *story)
    return engine


def kept(engine: Engine) -> list[tuple[str, list[float]]]:
    """Return the times of the calls of each breaker that is not closed."""
    windows = engine.records.failure_windows
    return [
        (found.breaker, [call.t for call in windows.calls(found.key)])
        for found in engine.guards.breaker.tripped
    ]


FIVE = [event for t in range(5) for event in fails(t, ("code", "ops")[t % 2])]


def test_the_calls_that_open_a_breaker_are_kept() -> None:
    assert kept(opened(*FIVE)) == [("db", [0.0, 1.0, 2.0, 3.0, 4.0])]


def test_of_a_breaker_for_one_agent_its_own_calls_are_kept() -> None:
    others = [event for t in range(4) for event in fails(t + 0.5, "ops", ok=True)]
    alone = [event for t in range(5, 10) for event in fails(t)]

    assert kept(opened(*others, *alone)) == [("db/code", [5.0, 6.0, 7.0, 8.0, 9.0])]


def test_a_breaker_that_a_probe_opens_again_keeps_what_opened_it() -> None:
    engine = opened(*FIVE, tick(35), *fails(36))

    ((breaker, times),) = kept(engine)

    assert [found.open_t for found in engine.guards.breaker.tripped] == [36.0]
    assert (breaker, times) == ("db", [0.0, 1.0, 2.0, 3.0, 4.0])


def test_a_breaker_that_closes_lets_go_of_its_calls() -> None:
    engine = opened(*FIVE)
    (found,) = engine.guards.breaker.tripped

    for t in (35, 41, 47):
        play(engine, *fails(t, ok=True))

    assert engine.guards.breaker.tripped == ()
    assert engine.records.failure_windows.calls(found.key) == []


def test_a_breaker_whose_calls_nobody_saw_has_none() -> None:
    moved = BreakerMoved(at=at(0), t=0.0, breaker="db", state="open", reason="down")
    ones = BreakerMoved(
        at=at(0), t=0.0, breaker="api/code", state="open", reason="down", agent="code"
    )

    assert kept(opened(moved, ones)) == [("db", []), ("api/code", [])]


def test_windows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safetyd.core.reporting.failure_windows.MAX_OPENED", 0)
    long = [event for t in range(MAX_CALLS) for event in fails(t / 100, ok=True)]
    story = [*long, *(event for t in range(1, 6) for event in fails(t))]

    assert kept(opened(*story)) == [("db/code", [])]
    monkeypatch.undo()
    ((_, times),) = kept(opened(*story))
    assert len(times) == MAX_CALLS
