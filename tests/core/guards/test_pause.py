import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.events.guard_events import Paused, Unpaused
from safetyd.core.guards.pause import PauseGuard
from safetyd.core.messages.verdict import ALLOWED, Severity
from tests.core.guards.guard_rig import assert_retold, look, moved, rules, stories
from tests.story import at, propose

SOURCES = ("operator", "anomaly", "budget")


def pause(
    t: float, source: str = "operator", agent: str = "code", by: str = "alice", reason: str = "odd"
) -> Paused:
    return Paused(at=at(t), t=float(t), agent=agent, source=source, by=by, reason=reason)  # type: ignore[arg-type]


def unpause(t: float, *sources: str, agent: str = "code") -> Unpaused:
    return Unpaused(at=at(t), t=float(t), agent=agent, sources=sources or SOURCES, by="alice")


def paused(*events: Paused | Unpaused) -> PauseGuard:
    guard = PauseGuard()
    for event in events:
        assert guard.observe(event) == ()
    return guard


@pytest.mark.req("S2.5")
@pytest.mark.req("S2.35")
@pytest.mark.parametrize("source", SOURCES)
def test_a_paused_agent_cannot_even_read(source: str) -> None:
    verdict = look(paused(pause(120, source)), propose(121, type="read_file"))

    assert verdict.decision is Severity.BLOCK
    assert (verdict.cause, rules(verdict)) == ("paused", (f"pause.{source}",))
    assert verdict.reason.endswith(" 12:02Z by alice: odd")


def test_a_pause_without_a_reason_says_who_and_when() -> None:
    verdict = look(paused(pause(0, reason="")), propose(1))

    assert verdict.reason.endswith(" 12:00Z by alice")


@pytest.mark.req("S2.35")
def test_the_oldest_source_gives_the_reason_and_all_are_listed() -> None:
    guard = paused(pause(0, "anomaly", by="safetyd", reason="loop"), pause(60, "operator"))

    verdict = look(guard, propose(61))

    assert rules(verdict) == ("pause.anomaly", "pause.operator")
    assert verdict.reason.endswith(" 12:00Z by safetyd: loop")


def test_a_source_that_pauses_again_has_one_pause_the_newest() -> None:
    guard = paused(pause(0), pause(60, by="bob", reason="still odd"))

    assert look(guard, propose(61)).reason.endswith(" 12:01Z by bob: still odd")
    assert len(guard.pauses("code")) == 1


def test_it_shows_who_is_paused_and_why() -> None:
    guard = paused(pause(0, "anomaly"), pause(1, agent="ops"), pause(2, "budget"))

    assert guard.agents == ("code", "ops")
    assert [(p.source, p.since) for p in guard.pauses("code")] == [
        ("anomaly", at(0)),
        ("budget", at(2)),
    ]
    assert guard.pauses("idle") == ()


agents = st.sampled_from(["code", "ops"])
pauses = st.builds(pause, st.just(0), st.sampled_from(SOURCES), agents)
clearings = st.builds(
    lambda agent, sources: unpause(0, *sources, agent=agent),
    agents,
    st.lists(st.sampled_from(SOURCES), max_size=2),
)
proposals = st.builds(propose, st.just(0), agent=agents)


@given(st.lists(pauses | clearings, max_size=30))
def test_an_agent_is_blocked_exactly_while_a_source_is_left(story) -> None:
    guard = PauseGuard()
    left: dict[str, set[str]] = {"code": set(), "ops": set()}
    for t, event in enumerate(story):
        guard.observe(moved(event, t))
        if isinstance(event, Paused):
            left[event.agent].add(event.source)
        else:
            left[event.agent] -= set(event.sources)

        for agent, sources in left.items():
            verdict = look(guard, propose(t, agent))
            blocked = {f"pause.{source}" for source in sources}
            assert set(rules(verdict)) - {""} == blocked
            assert (verdict is ALLOWED) == (not blocked)
        if not any(left.values()):
            assert guard.save()() == PauseGuard().save()()


@given(stories(pauses | clearings | proposals), proposals)
def test_a_replayed_guard_pauses_the_same_agents(story, last) -> None:
    assert_retold(PauseGuard, story, last)
