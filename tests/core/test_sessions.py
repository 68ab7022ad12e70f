from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import SessionClosed
from safetyd.core.events.event import Event
from safetyd.core.messages.proposal import Observation
from safetyd.core.messages.telemetry import Heartbeat, Iteration, SessionEnded, SessionStarted
from safetyd.core.policy import Policy
from safetyd.core.sessions import MAX_PER_TICK, MAX_SESSIONS
from tests.story import ask, outcome, play, propose, report, tick


def closed(events: list[Event]) -> list[tuple[str, str, str]]:
    return [(e.agent, e.session, e.why) for e in events if isinstance(e, SessionClosed)]


def test_a_session_ends_when_its_agent_says_so() -> None:
    engine = Engine(Policy())
    play(engine, propose(0, session="s1"), report(1, SessionStarted(session="s2")))

    events = play(engine, report(2, SessionEnded(session="s1")))

    assert closed(events) == [("code", "s1", "ended")]
    assert engine.sessions.live("code") == ("s2",)


def test_ending_an_unknown_session_has_no_effect() -> None:
    assert closed(play(Engine(Policy()), report(0, SessionEnded(session="s1")))) == []


def test_every_session_ends_when_its_agent_falls_silent() -> None:
    engine = Engine(Policy())
    play(engine, propose(0), report(5, Iteration(session="s1")), outcome(10))

    assert closed(play(engine, tick(1809.9))) == []
    assert closed(play(engine, tick(1810))) == [("code", "", "idle"), ("code", "s1", "idle")]
    assert engine.sessions.live("code") == ()


def test_a_heartbeat_keeps_sessions_alive_and_starts_none() -> None:
    engine = Engine(Policy())
    play(engine, propose(0), report(1000, Heartbeat()), report(1000, Heartbeat(), "ops"))

    assert closed(play(engine, tick(2000))) == []
    assert engine.sessions.live("ops") == ()


def test_one_tick_closes_a_limited_number_of_sessions() -> None:
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


def test_the_number_of_named_sessions_is_limited() -> None:
    engine = Engine(Policy())
    started = (report(n, SessionStarted(session=f"s{n}")) for n in range(MAX_SESSIONS + 1))
    play(engine, *started, report(100, Iteration(session="s")), propose(101))

    live = engine.sessions.live("code")

    assert live == (*(f"s{n}" for n in range(MAX_SESSIONS)), "")
    assert engine.guards.iterations.count("code", "s") == 0


def test_messages_of_a_session_too_many_keep_the_others_alive() -> None:
    engine = Engine(Policy())
    play(engine, *(report(0, SessionStarted(session=f"s{n}")) for n in range(MAX_SESSIONS)))
    play(engine, report(1000, SessionStarted(session="one more")))

    assert closed(play(engine, tick(2000))) == []


def test_a_session_that_ended_makes_room() -> None:
    engine = Engine(Policy())
    play(engine, *(report(0, SessionStarted(session=f"s{n}")) for n in range(MAX_SESSIONS)))
    play(engine, report(1, SessionEnded(session="s7")))

    assert ask(engine, propose(2, session="new")).allowed
    assert not ask(engine, propose(3, id="p2", session="newer")).allowed


def test_an_anonymous_agent_without_proposals_has_no_session() -> None:
    engine = Engine(Policy())
    talk = report(0, SessionStarted(session="s"))
    talk.keyless = True
    play(engine, talk)

    assert engine.sessions.live("code") == ()

    play(engine, propose(1, keyless=True), talk)
    assert engine.sessions.live("code") == ("", "s")


def test_visits_outside_any_episode_end_with_a_session_that_fell_silent() -> None:
    engine = Engine(Policy())
    nothing = engine.guards.gate.save()()
    seen = Observation(window_title="Home")
    play(engine, propose(0, observation=seen), propose(0, id="p2", session="s", observation=seen))

    play(engine, tick(1800))

    assert engine.guards.gate.save()() == nothing


def test_visits_in_an_episode_outlast_a_session_that_fell_silent() -> None:
    engine = Engine(Policy())
    seen = Observation(window_title="Home")
    play(engine, propose(0, episode="e", observation=seen))
    before = engine.guards.gate.save()()

    play(engine, tick(1800))

    assert engine.guards.gate.save()() == before
