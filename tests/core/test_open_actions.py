import pytest

from safetyd.core import open_actions as module
from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Overdue, Settled
from safetyd.core.events.event import Event
from safetyd.core.messages.telemetry import Outcome, Unreported
from safetyd.core.policy import Policy
from tests.story import outcome, play, propose, report, tick


def settled(events: list[Event]) -> list[Settled]:
    return [event for event in events if isinstance(event, Settled)]


def test_the_first_outcome_of_an_allowed_action_counts_once() -> None:
    engine = Engine(Policy())
    play(engine, propose(0, chain="c", task="t", model="m", dependency="d", session="s"))

    (first,) = settled(play(engine, outcome(1), outcome(2, ok=False)))

    assert (first.id, first.ok, first.allowed_t) == ("p1", True, 0.0)
    assert (first.chain, first.task, first.model, first.dependency, first.session) == tuple("ctmds")
    assert engine.actions.under_way("code") == ()


def test_the_outcome_of_a_refused_proposal_does_not_count() -> None:
    engine = Engine(Policy())
    play(engine, propose(0, type="run_shell", text="rm -rf /"))

    assert settled(play(engine, outcome(1), outcome(1, "unknown"))) == []


def test_an_outcome_without_an_id_counts() -> None:
    told = Outcome(ok=False, action_type="x", session="s", task="t", model="m", dependency="d")

    (event,) = settled(play(Engine(Policy()), report(0, told)))

    assert (event.id, event.allowed_t, event.failed_dependency) == (None, None, True)
    assert (event.type, event.session, event.task, event.model) == tuple("xstm")


def test_an_action_without_an_outcome_is_overdue_after_an_hour() -> None:
    engine = Engine(Policy())
    play(engine, propose(0))

    assert not any(isinstance(e, Overdue) for e in play(engine, tick(3599)))
    assert any(isinstance(e, Overdue) for e in play(engine, tick(3600)))
    assert settled(play(engine, outcome(3601))) == []


def test_with_too_many_open_actions_the_oldest_become_overdue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_UNDER_WAY", 2)
    monkeypatch.setattr(module, "GIVEN_UP", 2)
    engine = Engine(Policy())

    events = play(engine, *(propose(n, id=f"p{n}") for n in range(4)))

    assert [event.ids for event in events if isinstance(event, Overdue)] == [("p0", "p1")]
    assert engine.actions.under_way("code") == ("p2", "p3")


def test_one_tick_closes_a_limited_number_of_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PER_TICK", 2)
    monkeypatch.setattr(module, "GIVEN_UP", 2)
    engine = Engine(Policy())
    play(engine, *(propose(0, id=f"p{n}") for n in range(3)))
    play(engine, *(propose(0, agent=agent) for agent in ("ops", "meta")))

    late = [e for e in play(engine, tick(3600)) if isinstance(e, Overdue)]

    assert [event.ids for event in late] == [("p0", "p1"), ("p1",)]


def test_an_open_action_can_be_found() -> None:
    engine = Engine(Policy())
    play(engine, propose(0, model="m"))

    found = engine.actions.find("code", "p1")
    assert found is not None
    assert found.model == "m"
    assert engine.actions.find("code", None) is None
    assert engine.actions.find("ops", "p1") is None


def test_an_unreported_action_is_closed_as_neither_success_nor_error() -> None:
    engine = Engine(Policy())
    play(engine, propose(0), outcome(1, ok=False), propose(2, id="p2"))

    events = play(engine, report(3, Unreported(id="p2")), report(4, Unreported(id="p2")))

    assert [event.ids for event in events if isinstance(event, Overdue)] == [("p2",)]
    assert settled(events) == []
    assert engine.actions.under_way("code") == ()
