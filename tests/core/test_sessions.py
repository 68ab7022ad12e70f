from safetyd.core.engine import Engine
from safetyd.core.events import Event, SessionClosed
from safetyd.core.policy import Policy
from safetyd.core.sessions import MAX_PER_TICK
from safetyd.core.telemetry import Heartbeat, Iteration, SessionEnded, SessionStarted
from tests.play import outcome, play, propose, report, tick


def closed(events: list[Event]) -> list[tuple[str, str, str]]:
    return [(e.agent, e.session, e.why) for e in events if isinstance(e, SessionClosed)]


def test_a_session_ends_when_its_agent_says_so() -> None:
    engine = Engine(Policy())
    play(engine, propose(0, session="s1"), report(1, SessionStarted(session="s2")))

    events = play(engine, report(2, SessionEnded(session="s1")))

    assert closed(events) == [("code", "s1", "ended")]
    assert engine.sessions.live("code") == ("s2",)


def test_the_end_of_a_session_that_never_began_is_nothing() -> None:
    assert closed(play(Engine(Policy()), report(0, SessionEnded(session="s1")))) == []


def test_every_session_ends_when_its_agent_falls_silent() -> None:
    engine = Engine(Policy())
    play(engine, propose(0), report(5, Iteration(session="s1")), outcome(10))

    assert closed(play(engine, tick(1809.9))) == []
    assert closed(play(engine, tick(1810))) == [("code", "", "idle"), ("code", "s1", "idle")]
    assert engine.sessions.live("code") == ()


def test_a_heartbeat_keeps_sessions_alive_and_begins_none() -> None:
    engine = Engine(Policy())
    play(engine, propose(0), report(1000, Heartbeat()), report(1000, Heartbeat(), "ops"))

    assert closed(play(engine, tick(2000))) == []
    assert engine.sessions.live("ops") == ()


def test_one_tick_closes_a_bounded_number() -> None:
    engine = Engine(Policy())
    play(engine, *(propose(0, agent=f"a{n}") for n in range(MAX_PER_TICK + 1)))

    assert len(closed(play(engine, tick(1800)))) == MAX_PER_TICK
    assert len(closed(play(engine, tick(1800)))) == 1


def test_closing_what_is_not_open_changes_nothing() -> None:
    engine = Engine(Policy())
    play(engine, propose(0, session="s1"), propose(0, id="p2"))
    event = SessionClosed(at=tick(1).at, t=1.0, agent="code", session="other", why="ended")

    play(engine, event)

    assert engine.sessions.live("code") == ("s1", "")
