import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.events.decision_events import SessionClosed
from safetyd.core.events.guard_events import Forgotten
from safetyd.core.guards.iterations import MAX_EARLY, Iterations, IterationsConfig
from safetyd.core.messages.telemetry import Heartbeat, Iteration
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict
from safetyd.core.sessions import MAX_SESSIONS, Sessions, SessionsConfig
from tests.core.guards.guard_rig import (
    OTHER_ASKS,
    OTHER_BLOCKS,
    assert_retold,
    decided,
    look,
    propose_to,
    stories,
)
from tests.story import at, propose, report, tick


def limits(**overrides: int) -> Iterations:
    return configured(IterationsConfig(), overrides)


def configured(
    config: IterationsConfig, overrides: dict[str, int], sessions: Sessions | None = None
) -> Iterations:
    return Iterations(config, overrides, (sessions or Sessions(SessionsConfig())).admits)


def dispatch(guard: Iterations, agent: str = "writer", session: str | None = None) -> Verdict:
    return propose_to(guard, propose(0, agent, type="dispatch", session=session))


def iterate(
    guard: Iterations, times: int, agent: str = "writer", session: str | None = None
) -> None:
    for _ in range(times):
        guard.observe(report(0, Iteration(session=session), agent))


def reset(
    agent: str = "writer", session: str | None = None, episode: str | None = None
) -> Forgotten:
    return Forgotten(at=at(0), t=0.0, agent=agent, by="alice", session=session, episode=episode)


def closed(session: str = "", agent: str = "writer") -> SessionClosed:
    return SessionClosed(at=at(0), t=0.0, agent=agent, session=session, why="idle")


@pytest.mark.req("S2.7")
@pytest.mark.req("S2.42")
def test_the_sixth_dispatch_of_a_session_is_blocked() -> None:
    guard = limits()

    verdicts = [dispatch(guard) for _ in range(6)]

    assert verdicts[:5] == [ALLOWED] * 5
    assert verdicts[5].decision is Severity.BLOCK
    assert (verdicts[5].rule, verdicts[5].cause) == ("iterations.limit", "iteration_limit")
    assert verdicts[5].reason == "iteration limit reached (5 >= 5)"
    assert verdicts[5].limit_id == "iterations.limit:writer"


def test_the_last_round_may_finish() -> None:
    guard = limits()
    iterate(guard, 5)

    assert look(guard, propose(0, "writer", type="edit_file")) is ALLOWED
    assert look(guard, propose(0, "writer", type="dispatch")).decision is Severity.BLOCK


def test_after_one_round_too_many_nothing_goes_on() -> None:
    guard = limits()
    iterate(guard, 6)

    verdict = look(guard, propose(0, "writer", type="read_file"))

    assert verdict.reason == "iteration limit reached (6 > 5)"
    assert dispatch(guard).reason == "iteration limit reached (6 >= 5)"


@pytest.mark.req("S2.46")
def test_five_iterations_block_code_implement() -> None:
    guard = limits()
    iterate(guard, 5, "code")

    verdict = look(guard, propose(0, "code", type="implement"))

    assert verdict.decision is Severity.BLOCK
    assert "iteration limit" in verdict.reason


def test_a_round_that_is_dispatched_and_reported_counts_once() -> None:
    guard = limits()

    for _ in range(3):
        dispatch(guard)
        iterate(guard, 1)

    assert guard.count("writer") == 3


@pytest.mark.req("S2.6")
@pytest.mark.parametrize(
    ("agent", "limit"),
    [
        ("discovery", 3),
        ("support", 5),
        ("ops", 10),
        ("code", 3),
        ("growth", 5),
        ("meta", 2),
        ("finance", 3),
        ("loop", 5),
    ],
)
def test_known_agents_have_their_own_limits_whatever_the_case(agent: str, limit: int) -> None:
    guard = limits()

    allowed = [dispatch(guard, agent.title()) for _ in range(12)].count(ALLOWED)

    assert allowed == limit
    assert guard.limit(agent) == guard.limit(agent.upper()) == limit


@pytest.mark.req("S2.8")
def test_others_have_five() -> None:
    assert limits().limit("anybody") == 5


def test_an_operator_sets_limits() -> None:
    guard = configured(IterationsConfig(default=1, agents={"Ops": 2}), {"nightly": 500, "ops": 0})

    assert (guard.limit("x"), guard.limit("OPS")) == (1, 2)
    assert (guard.limit("nightly"), guard.limit("ops")) == (500, 0)
    assert dispatch(guard, "ops").reason == "iteration limit reached (0 >= 0)"


def test_the_limit_of_one_name_is_not_that_of_another_that_looks_like_it() -> None:
    assert limits(nightly=500).limit("Nightly") == 5


def test_a_session_that_ended_starts_at_zero() -> None:
    guard = limits()
    for session in ("", "a"):
        iterate(guard, 5, session=session)

    guard.observe(closed("a"))

    assert (guard.count("writer", "a"), guard.count("writer")) == (0, 5)
    guard.observe(closed())
    assert guard.save()() == limits().save()()


@pytest.mark.parametrize(
    ("event", "left"),
    [
        (reset(), (0, 0)),
        (reset(session="a"), (3, 0)),
        (reset(session=""), (0, 3)),
        (reset(episode="a"), (3, 3)),
        (reset(session="a", episode="a"), (3, 3)),
        (reset("other"), (3, 3)),
    ],
)
def test_an_operator_can_reset_the_count(event: Forgotten, left: tuple[int, int]) -> None:
    guard = limits()
    iterate(guard, 3)
    iterate(guard, 3, session="a")

    guard.observe(event)

    assert (guard.count("writer"), guard.count("writer", "a")) == left


def test_only_dispatches_that_were_allowed_count() -> None:
    guard = limits()
    proposed = propose(0, "writer", type="dispatch")

    guard.observe(decided(proposed, OTHER_ASKS))
    guard.observe(decided(proposed, OTHER_BLOCKS))
    guard.observe(decided(proposed, ALLOWED, first=False))
    guard.observe(decided(propose(0, "writer"), ALLOWED))
    guard.observe(report(0, Heartbeat(), "writer"))
    guard.observe(tick(0))

    assert guard.count("writer") == 0


def test_rounds_before_the_first_proposal_of_an_anonymous_agent_count() -> None:
    sessions = Sessions(SessionsConfig())
    guard = configured(IterationsConfig(), {}, sessions)
    talk = report(0, Iteration(), "writer")
    talk.keyless = True
    for _ in range(4):
        guard.observe(talk)

    sessions.observe(decided(propose(0, "writer"), ALLOWED))
    guard.observe(talk)

    assert guard.count("writer") == 5
    assert dispatch(guard).rule == "iterations.limit"


def test_names_that_only_talk_and_have_no_key_are_remembered_up_to_a_limit() -> None:
    guard = configured(IterationsConfig(), {}, Sessions(SessionsConfig()))
    for number in range(MAX_EARLY + 1):
        talk = report(0, Iteration(), f"writer-{number}")
        talk.keyless = True
        guard.observe(talk)

    assert [guard.count(f"writer-{number}") for number in (0, 1, MAX_EARLY)] == [0, 1, 1]
    assert guard.agents == ()


def test_talk_of_many_sessions_is_bounded_and_opens_no_way_around() -> None:
    sessions = Sessions(SessionsConfig())
    guard = configured(IterationsConfig(), {}, sessions)
    for number in range(MAX_SESSIONS + 5):
        talk = report(0, Iteration(session=f"s{number}"), "writer")
        guard.observe(talk)
        sessions.observe(talk)

    assert guard.count("writer", f"s{MAX_SESSIONS - 1}") == 1
    assert guard.count("writer", f"s{MAX_SESSIONS}") == 0
    assert [dispatch(guard, session="new") for _ in range(6)].count(ALLOWED) == 5


agents = st.sampled_from(["code", "Code", "nightly"])
sessions = st.sampled_from([None, "", "a", "b"])
proposals = st.builds(
    propose,
    st.just(0),
    agent=agents,
    type=st.sampled_from(["dispatch", "dispatch", "Dispatch", "read_file"]),
    session=sessions,
)
happenings = st.one_of(
    proposals,
    st.builds(report, st.just(0), st.builds(Iteration, session=sessions), agents),
    st.builds(closed, sessions.map(lambda name: name or ""), agents),
    st.builds(reset, agents, sessions, st.sampled_from([None, None, "e"])),
)


@given(stories(happenings, most=60), proposals)
def test_a_replayed_count_is_the_same_count(story, last) -> None:
    assert_retold(lambda: configured(IterationsConfig(default=2), {"nightly": 4}), story, last)


@given(st.lists(st.tuples(agents, sessions), max_size=60))
def test_no_session_has_more_dispatches_than_its_limit(story) -> None:
    guard = limits(nightly=4)
    allowed = [
        (agent, session or "")
        for agent, session in story
        if dispatch(guard, agent, session) is ALLOWED
    ]

    assert all(allowed.count(key) <= guard.limit(key[0]) for key in allowed)
    assert all(guard.count(*key) == allowed.count(key) for key in allowed)


def test_of_an_agents_sessions_the_one_with_most_rounds_is_shown() -> None:
    guard = limits()
    assert guard.most("writer") == 0

    dispatch(guard, session="s1")
    iterate(guard, 3, session="s2")

    assert guard.most("writer") == 3
