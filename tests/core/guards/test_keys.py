from typing import Any, Final

import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.events.daemon_events import KeysChanged
from safetyd.core.events.decision_events import Proposed, Reported
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import Paused, SafeModeEntered
from safetyd.core.messages.money import NANO
from safetyd.core.messages.proposal import Observation
from safetyd.core.messages.telemetry import Heartbeat, Iteration, SessionEnded
from safetyd.core.policy import Policy
from tests.core.guards.guard_rig import decided
from tests.story import ask, at, outcome, play, propose, report, stop

HELD: Final[dict[str, Event]] = {
    "stopped": stop(1, agent="a"),
    "paused": Paused(at=at(1), t=1, agent="a", source="operator", by="alice"),
    "in safe mode": SafeModeEntered(at=at(1), t=1, by="alice", agent="a"),
    "waiting for a person": propose(1, "a", "ask", "push", keyless=True),
}


@pytest.mark.parametrize("holds", HELD.values(), ids=HELD.keys())
def test_one_anonymous_name_too_many_is_blocked_if_all_are_restricted(holds: Event) -> None:
    engine = Engine(Policy(max_agents=1))
    play(engine, propose(0, agent="a", keyless=True), holds)

    decision = ask(engine, propose(1, agent="b", keyless=True))

    assert (decision.cause, decision.limit_id) == ("rate_limit", "keys.agents")
    assert "b" not in engine.keys.agents


def test_known_and_keyed_names_are_heard_when_the_names_are_used_up() -> None:
    engine = Engine(Policy(max_agents=1))
    ask(engine, propose(0, agent="a", keyless=True))

    assert ask(engine, propose(1, agent="a", id="p2", keyless=True)).allowed
    assert ask(engine, propose(1, agent="c")).allowed


def keyless(t: float, agent: str, type_: str = "read_file") -> Proposed:
    return propose(t, agent, f"{agent}-{t}", type_, keyless=True)


def done(t: float, agent: str, id_: str) -> Reported:
    told = outcome(t, id_, agent=agent)
    told.keyless = True
    return told


def test_a_new_name_takes_the_place_of_one_that_was_never_allowed_anything() -> None:
    engine = Engine(Policy(max_agents=3))
    play(
        engine,
        keyless(0, "idle"),
        done(1, "idle", "idle-0"),
        keyless(2, "busy"),
        keyless(3, "refused", "change_password"),
    )

    play(engine, keyless(4, "new"), done(5, "new", "new-4"))
    assert set(engine.keys.agents) == {"idle", "busy", "new"}
    play(engine, keyless(6, "newer"), done(7, "newer", "newer-6"))
    assert set(engine.keys.agents) == {"busy", "new", "newer"}


def test_a_busy_name_is_forgotten_last_and_its_reservations_are_spent() -> None:
    engine = Engine(Policy(max_agents=2))
    play(
        engine,
        propose(0, "first", "p1", keyless=True, cost_usd=2),
        keyless(1, "second"),
        keyless(2, "third"),
    )

    assert set(engine.keys.agents) == {"second", "third"}
    day = next(engine.guards.budget.standings(at(3)))
    assert (day.spent, day.reserved) == (2 * NANO, 0)
    play(engine, done(3, "first", "p1"))
    assert not engine.actions.is_busy("first")


def test_a_name_that_was_let_in_by_other_rules_is_known_beyond_the_bound() -> None:
    engine = Engine(Policy(max_agents=0))

    engine.keys.observe(decided(keyless(0, "a")))

    assert set(engine.keys.agents) == {"a"}


def test_active_names_stay_and_silent_ones_are_forgotten() -> None:
    engine = Engine(Policy(max_agents=2))
    play(engine, keyless(0, "a"), keyless(1, "b"), keyless(2, "a"), keyless(3, "c"))

    assert set(engine.keys.agents) == {"a", "c"}


def test_a_forgotten_name_leaves_no_state() -> None:
    engine = Engine(Policy(max_agents=1))
    seen = Observation(url="https://shop.example")
    words: dict[str, Any] = {
        "session": "s",
        "chain": "c",
        "episode": "e",
        "task": "t",
        "cost_usd": 0.01,
    }
    types = ("click", "dispatch", "memory_write", "read_file")
    play(
        engine,
        *(
            propose(n, "gone", f"g{n}", types[n], keyless=True, observation=seen, **words)
            for n in range(4)
        ),
        Reported(at=at(5), t=5, agent="gone", telemetry=Iteration(session="s"), keyless=True),
    )

    play(engine, keyless(6, "new"))

    saved = engine.save()().actors
    # Answers are remembered for a while, and what people are told.
    left = {name for name, state in saved.items() if b"gone" in state}
    assert left <= {"recall", "reporter", "approvals"}
    assert engine.guards.rate.agent_bucket("gone", 6).full_s == 0


def test_an_agent_whose_key_was_taken_away_is_a_name_like_others() -> None:
    engine = Engine(Policy(max_agents=1))
    play(engine, propose(0, "code"), propose(0, "ops", "o1"))
    assert engine.keys.others(keyless=True)

    rotated = KeysChanged(
        at=at(1), t=1, added=("agent code U2",), removed=("agent code U1",), by="alice"
    )
    revoked = ("agent code U2", "agent ops U3", "operator bob U4")
    ended = KeysChanged(at=at(1), t=1, added=(), removed=("old agent code U1",), by="overlap")
    play(engine, rotated, ended)
    assert engine.keys.others(keyless=False)
    play(engine, KeysChanged(at=at(2), t=2, added=(), removed=revoked, by="alice"))

    assert not engine.keys.others(keyless=True)
    assert ask(engine, keyless(3, "new")).allowed


def test_a_name_that_gets_a_key_makes_room() -> None:
    engine = Engine(Policy(max_agents=1))
    play(engine, propose(0, agent="a", keyless=True), propose(1, agent="a", id="p2"))

    assert ask(engine, propose(2, agent="b", keyless=True)).allowed


def test_an_agent_that_used_a_key_is_not_anonymous() -> None:
    engine = Engine(Policy())
    play(engine, propose(0, agent="a", keyless=True), propose(1, agent="b"))

    assert [engine.keys.keyless(name) for name in ("a", "b", "unheard")] == [True, False, True]


def test_telemetry_alone_does_not_take_a_name() -> None:
    engine = Engine(Policy())
    heartbeat = report(0, Heartbeat())
    heartbeat.keyless = True
    play(engine, heartbeat)

    assert engine.keys.agents == {}


def test_answers_are_counted_per_agent() -> None:
    engine = Engine(Policy())
    play(
        engine,
        propose(0, id="p1"),
        propose(1, id="p2", type="run_shell", text="rm -rf /"),
        propose(2, id="p3", confidence=0.1),
        propose(3, id="p4", dry_run=True),
        outcome(4, "p1", ok=False),
        report(5, SessionEnded(session="s")),
    )

    agent = engine.keys.agents["code"]
    assert (agent.allowed, agent.blocked, agent.asked, agent.failed) == (1, 1, 1, 1)
    assert agent.heard_t == 5


def test_stop_is_acknowledged_once_for_all_earlier_epochs() -> None:
    engine = Engine(Policy())
    play(engine, stop(0, epoch=4))
    play(engine, report(1, Heartbeat(stop_epoch=4)), report(2, Heartbeat(stop_epoch=2)))

    assert engine.keys.agents["code"].stop_epoch == 4


def test_stop_that_was_not_yet_cannot_be_acknowledged() -> None:
    engine = Engine(Policy())
    play(engine, stop(0, epoch=4), report(1, Heartbeat(stop_epoch=2**53)))

    assert engine.keys.agents["code"].stop_epoch == 0
