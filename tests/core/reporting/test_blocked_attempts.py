from safetyd.core.engine.engine import Engine
from safetyd.core.events.guard_events import PersonSeen
from safetyd.core.policy import Policy
from safetyd.core.reporting.blocked_attempts import RECENT_S, DangerousCommands
from tests.story import at, play, propose


def person(t: float, how: str) -> PersonSeen:
    return PersonSeen(at=at(t), t=t, by="alice", how=how)


def test_attempts_on_safetyd_are_counted_until_an_operator_acknowledges_them() -> None:
    engine = Engine(Policy())
    attempts = engine.records.blocked_attempts

    play(engine, propose(1, id="p1", type="run_shell", text="safetyd approve req_1"))
    play(engine, propose(2, id="p2", type="run_shell", text="cat ~/.config/safetyd/operator.nk"))
    play(engine, person(3, "cli"))

    (one,) = attempts.own
    assert (one.agent, one.count, one.since, one.id) == ("code", 2, at(1), "p2")

    play(engine, person(4, "ack"))

    assert attempts.own == ()


def test_dangerous_commands_are_counted_for_an_hour() -> None:
    engine = Engine(Policy())
    attempts = engine.records.blocked_attempts

    play(engine, propose(1, id="p1", type="run_shell", text="rm -rf ~"))
    play(engine, propose(9, id="p2", type="run_shell", text="dd if=/dev/zero of=/dev/sda"))
    play(engine, propose(10, id="p3", type="run_shell", text="ls"))
    play(engine, propose(10, id="p4", type="run_shell", text="rm -rf ~", dry_run=True))

    assert list(attempts.dangerous(10.0)) == [DangerousCommands("code", 2)]
    assert list(attempts.dangerous(RECENT_S + 5.0)) == [DangerousCommands("code", 1)]
    assert list(attempts.dangerous(RECENT_S + 10.0)) == []


def test_agents_without_a_key_are_counted_as_one() -> None:
    engine = Engine(Policy())

    for name in ("a", "b"):
        play(engine, propose(1, name, type="run_shell", text="safetyd stop", keyless=True))

    (one,) = engine.records.blocked_attempts.own
    assert (one.agent, one.count) == ("b", 2)
