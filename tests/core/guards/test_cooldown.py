import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.events.guard_events import Forgotten
from safetyd.core.guards.cooldown import MAX_TARGETS, Cooldown, CooldownConfig
from safetyd.core.messages.proposal import Target
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict
from tests.core.guards.guard_rig import (
    OTHER_ASKS,
    OTHER_BLOCKS,
    assert_retold,
    decided,
    look,
    propose_to,
    stories,
)
from tests.story import at, propose, tick


def cooldown(**overrides: float) -> Cooldown:
    return Cooldown(CooldownConfig(), overrides)


def dispatch(guard: Cooldown, t: float, name: str | None = None, agent: str = "code") -> Verdict:
    target = None if name is None else Target(name=name)
    return propose_to(guard, propose(t, agent, type="dispatch", target=target))


def reset(agent: str = "code", session: str | None = None, episode: str | None = None) -> Forgotten:
    return Forgotten(at=at(0), t=0.0, agent=agent, by="alice", session=session, episode=episode)


@pytest.mark.req("S2.2")
@pytest.mark.req("S2.42")
def test_a_second_dispatch_within_a_minute_is_blocked() -> None:
    guard = cooldown()
    dispatch(guard, 100)

    verdict = dispatch(guard, 112.5)

    assert verdict.decision is Severity.BLOCK
    assert (verdict.rule, verdict.cause) == ("cooldown.dispatch", "cooldown")
    assert verdict.reason == "cooldown not elapsed (12s < 60s)"
    assert verdict.retry_after_s == 47.5
    assert verdict.limit_id == "cooldown.dispatch:code"


def test_only_a_dispatch_that_was_allowed_is_stamped() -> None:
    guard = cooldown()
    proposed = propose(0, type="dispatch")

    guard.observe(decided(proposed, OTHER_ASKS))
    guard.observe(decided(proposed, OTHER_BLOCKS))
    guard.observe(decided(proposed, ALLOWED, first=False))
    guard.observe(decided(propose(0), ALLOWED))
    guard.observe(tick(0))

    assert guard.save()() == cooldown().save()()


def test_nothing_else_cools_down() -> None:
    guard = cooldown()
    dispatch(guard, 0)

    assert look(guard, propose(1, type="edit_file")) is ALLOWED


def test_agents_and_targets_cool_down_apart() -> None:
    guard = cooldown()
    dispatch(guard, 0, "tests")

    assert dispatch(guard, 1, "docs") is ALLOWED
    assert dispatch(guard, 1, "tests", agent="ops") is ALLOWED
    assert dispatch(guard, 1, "tests").decision is Severity.BLOCK


@pytest.mark.parametrize("name", [None, ""])
def test_without_a_target_an_agent_dispatches_itself(name: str | None) -> None:
    guard = cooldown()
    dispatch(guard, 0, name)

    assert dispatch(guard, 1, "code").decision is Severity.BLOCK


def test_an_agent_can_have_a_cooldown_of_its_own() -> None:
    guard = cooldown(nightly=0, slow=0.5)
    dispatch(guard, 0, agent="nightly")
    dispatch(guard, 0, agent="slow")

    assert dispatch(guard, 0, agent="nightly") is ALLOWED
    assert dispatch(guard, 0.25, agent="slow").reason == "cooldown not elapsed (0s < 0.5s)"
    assert dispatch(guard, 0.5, agent="slow") is ALLOWED


def test_it_shows_what_is_cooling_down() -> None:
    guard = cooldown()
    dispatch(guard, 0, "tests")
    dispatch(guard, 20, "docs")

    assert guard.cooling("code", 30) == {"tests": 30, "docs": 50}
    assert guard.cooling("code", 60) == {"docs": 20}
    assert guard.cooling("ops", 30) == {}


@pytest.mark.parametrize(
    ("event", "free"),
    [
        (reset(), True),
        (reset(session="s"), True),
        (reset(episode="e"), False),
        (reset("ops"), False),
    ],
)
def test_an_operator_can_reset_the_stamps(event: Forgotten, *, free: bool) -> None:
    guard = cooldown()
    dispatch(guard, 0)

    guard.observe(event)

    assert (dispatch(guard, 1) is ALLOWED) == free


def test_with_too_many_targets_cooling_down_one_more_waits_for_the_oldest() -> None:
    guard = cooldown()
    for number in range(MAX_TARGETS):
        dispatch(guard, number / 4, f"t{number}")

    verdict = dispatch(guard, 20, "one more")

    assert verdict.rule == "cooldown.targets"
    assert verdict.reason == "cooldown not elapsed (20s < 60s) for the oldest of 64 targets"
    assert verdict.retry_after_s == 40
    assert verdict.limit_id == "cooldown.targets:code"
    assert dispatch(guard, 60, "one more") is ALLOWED
    assert dispatch(guard, 60, "t1").rule == "cooldown.dispatch"


def test_stamps_that_no_longer_hold_are_forgotten() -> None:
    guard, fresh = cooldown(), cooldown()
    for number in range(MAX_TARGETS):
        dispatch(guard, 0, f"t{number}")

    for known in (guard, fresh):
        dispatch(known, 60, "new")

    assert guard.save()() == fresh.save()()


def test_even_a_journal_of_other_rules_cannot_fill_it() -> None:
    guard = cooldown()

    for number in range(MAX_TARGETS + 1):
        target = Target(name=f"t{number}")
        guard.observe(decided(propose(0, type="dispatch", target=target), ALLOWED))

    assert len(guard.cooling("code", 0)) == MAX_TARGETS


def test_long_names_are_hashed_and_distinct() -> None:
    guard = cooldown()
    dispatch(guard, 0, "x" * 1000)

    assert dispatch(guard, 1, "x" * 999) is ALLOWED
    assert dispatch(guard, 1, "x" * 1000).decision is Severity.BLOCK
    assert all(len(name) == 64 for name in guard.cooling("code", 0))


agents = st.sampled_from(["code", "ops", "nightly"])
targets = st.sampled_from([None, Target(), Target(name="code"), Target(name="é" * 99)])
proposals = st.builds(
    propose,
    st.just(0),
    agent=agents,
    type=st.sampled_from(["dispatch", "dispatch", "read_file"]),
    target=targets,
)
happenings = proposals | st.builds(reset, agents, st.none(), st.sampled_from([None, "e"]))


@given(stories(happenings, most=60), proposals)
def test_a_replayed_cooldown_is_the_same_cooldown(story, last) -> None:
    assert_retold(lambda: cooldown(nightly=5.0), story, last)


@given(st.lists(st.tuples(st.integers(0, 200), st.sampled_from("abc")), max_size=60))
def test_allowed_dispatches_to_one_target_are_never_closer_than_the_cooldown(story) -> None:
    guard, t = cooldown(), 0.0
    allowed: dict[str, float] = {}
    for quarters, target in story:
        t += quarters / 4
        verdict = dispatch(guard, t, target)
        if verdict is ALLOWED:
            assert t - allowed.get(target, -60) >= 60
            allowed[target] = t
        else:
            assert t + (verdict.retry_after_s or 0) == allowed[target] + 60
