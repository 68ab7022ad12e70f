from safetyd.core.engine import Engine
from safetyd.core.policy import Policy
from safetyd.core.telemetry import Heartbeat, SessionEnded
from tests.play import ask, outcome, play, propose, report, stop, tick


def test_one_keyless_name_too_many_is_refused() -> None:
    engine = Engine(Policy(max_agents=1))
    ask(engine, propose(0, agent="a", keyless=True))

    decision = ask(engine, propose(1, agent="b", keyless=True))

    assert (decision.cause, decision.limit_id) == ("rate_limit", "keys.agents")
    assert "b needs a key" in decision.reason
    assert "b" not in engine.keys.agents


def test_known_and_keyed_names_are_heard_when_the_names_are_used_up() -> None:
    engine = Engine(Policy(max_agents=1))
    ask(engine, propose(0, agent="a", keyless=True))

    assert ask(engine, propose(1, agent="a", id="p2", keyless=True)).allowed
    assert ask(engine, propose(1, agent="c")).allowed


def test_a_name_that_gets_a_key_makes_room() -> None:
    engine = Engine(Policy(max_agents=1))
    play(engine, propose(0, agent="a", keyless=True), propose(1, agent="a", id="p2"))

    assert ask(engine, propose(2, agent="b", keyless=True)).allowed


def test_who_was_heard_with_a_key_is_not_without_one() -> None:
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


def test_other_events_change_nothing() -> None:
    engine = Engine(Policy())
    before = engine.keys.save()()
    engine.keys.observe(tick(0))

    assert engine.keys.save()() == before
