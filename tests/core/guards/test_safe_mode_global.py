"""Global safe mode: by an operator, or because many agents entered it together."""

import pytest

from safetyd.core.anonymous_pool import ANONYMOUS
from safetyd.core.events.guard_events import SafeModeEntered
from safetyd.core.guards.safe_mode import SafeMode
from safetyd.core.messages.verdict import ALLOWED
from tests.core.guards.guard_rig import GuardRig, settled
from tests.core.guards.safe_mode_rig import enter, errors, fails, guarded, leave, state
from tests.story import at


def fleet(
    size: int, t: float = 0, *, keyless: bool = False, **settings: object
) -> GuardRig[SafeMode]:
    held = guarded(**settings)
    heard(held, t, *(f"a{number}" for number in range(size)), keyless=keyless)
    return held


def heard(held: GuardRig[SafeMode], t: float, *agents: str, keyless: bool = False) -> None:
    for agent in agents:
        held.asks(t, agent=agent, keyless=keyless)


def fall(held: GuardRig[SafeMode], t: float, *agents: str, keyless: bool = False) -> bool:
    """Put agents in safe mode by errors. Return whether that restricted all of their kind."""
    for agent in agents:
        entries = fails(held, t, agent, keyless=keyless)
        assert entries[0].agent == agent
    return entries[-1].agent == (ANONYMOUS if keyless else None)


def restricted(
    held: GuardRig[SafeMode], agent: str = "bystander", *, keyless: bool = False
) -> bool:
    return held.looks(0, agent=agent, type="push", keyless=keyless) is not ALLOWED


def test_an_operator_can_hold_everybody() -> None:
    held = guarded()

    held.hears(enter(60, None))

    verdict = held.looks(61, agent="anybody", type="push")
    assert verdict.rule == "safe_mode_restricted"
    assert held.looks(61, agent="anybody") is ALLOWED
    assert state(held, 61, "anybody") == "safe_mode"


def test_three_agents_within_ten_minutes_hold_everybody() -> None:
    held = fleet(4)
    fall(held, 1, "a0", "a1")
    assert not restricted(held)

    entries = fails(held, 2, "a2")

    reason = entries[-1].reason
    assert entries[-1] == SafeModeEntered(at=at(2), t=2, by="safetyd", reason=reason)
    assert all(said in reason for said in ("3 agents", "600 s", "4 "))
    assert restricted(held)


def test_an_operator_sets_how_many_and_nought_is_never() -> None:
    assert fall(fleet(4, global_after_agents=2), 1, "a0", "a1")
    assert not fall(fleet(4, global_after_agents=0), 1, "a0", "a1", "a2", "a3")


@pytest.mark.parametrize(("seconds", "together"), [(599.75, True), (600, False)])
def test_an_entry_counts_for_the_window(seconds: float, *, together: bool) -> None:
    held = fleet(3)
    fall(held, 0, "a0", "a1")

    assert fall(held, seconds, "a2") == together


@pytest.mark.parametrize(("size", "enough"), [(12, True), (13, False)])
def test_they_must_be_a_quarter_of_those_heard(size: int, *, enough: bool) -> None:
    assert fall(fleet(size), 1, "a0", "a1", "a2") == enough


def test_a_share_is_exact() -> None:
    assert fall(fleet(30, global_share=0.1), 1, "a0", "a1", "a2")
    assert not fall(fleet(31, global_share=0.1), 1, "a0", "a1", "a2")


@pytest.mark.parametrize(("seconds", "enough"), [(3599.75, False), (3600, True)])
def test_an_agent_is_heard_for_an_hour(seconds: float, *, enough: bool) -> None:
    held = fleet(13)
    heard(held, 0.25, "a0", "a1", "a2")

    assert fall(held, seconds, "a0", "a1", "a2") == enough


def test_an_outcome_is_a_sign_of_life() -> None:
    held = fleet(13)
    for number in range(13):
        held.hears(settled(100, None, f"a{number}"))

    assert not fall(held, 3650, "a0", "a1", "a2")


def test_agents_that_a_person_puts_in_safe_mode_do_not_take_the_others_along() -> None:
    held = guarded()

    caused = held.hears(enter(0, "x"), enter(0, "y"), enter(0, "z"))

    assert not any(isinstance(event, SafeModeEntered) for event in caused)


def test_one_agent_that_enters_again_and_again_is_one() -> None:
    held = fleet(3)
    for t in (0, 60, 120):
        assert not fall(held, t, "a0")
        held.hears(leave(t + 1, "a0"))

    assert not restricted(held)


def test_an_agent_that_has_left_has_entered() -> None:
    held = fleet(3)
    fall(held, 0, "a0", "a1")
    held.hears(leave(60, "a0"), leave(60, "a1"))

    assert fall(held, 61, "a2")


def test_names_without_a_key_neither_hold_everybody_nor_hide_those_with_one() -> None:
    held = fleet(4)
    heard(held, 0, *(f"k{number}" for number in range(50)), keyless=True)

    assert not fall(held, 1, "k0", "k1", "k2", "unknown", keyless=True)
    assert fall(held, 2, "a0", "a1", "a2")


@pytest.mark.parametrize("known", [0, 4])
def test_failing_anonymous_agents_restrict_only_anonymous_agents(known: int) -> None:
    held = fleet(known)

    entries = [entry for name in ("x", "y", "z") for entry in fails(held, 1, name, keyless=True)]

    assert (entries[-1].agent, entries[-1].by) == (ANONYMOUS, "safetyd")
    assert restricted(held, "unheard-of", keyless=True)
    assert held.looks(2, agent="unheard-of", keyless=True) is ALLOWED
    assert not restricted(held)
    verdict = held.looks(2, agent="x", type="push", keyless=True)
    assert all(f"--agent {whose}`" in verdict.remedy for whose in ('"*keyless"', "x"))
    assert held.guard.status("x", 2).agents == (ANONYMOUS, "x")


def test_while_all_without_a_key_are_held_those_with_one_still_count() -> None:
    held = fleet(4)
    assert fall(held, 1, "x", "y", "z", keyless=True)

    assert fails(held, 2, "w", keyless=True) == []
    assert fall(held, 2, "a0", "a1", "a2")


def test_leaving_the_safe_mode_of_anonymous_agents_resets_their_counts() -> None:
    held = fleet(4)
    fails(held, 0, "w", times=2, keyless=True)
    fails(held, 0, "a0", times=2)
    fall(held, 1, "x", "y", "z", keyless=True)

    held.hears(leave(62, ANONYMOUS))

    assert not restricted(held, "w", keyless=True)
    assert restricted(held, "x", keyless=True)
    assert (errors(held, "w"), errors(held, "a0"), errors(held, "x")) == (0, 2, 3)


def test_without_any_keys_anonymous_agents_count() -> None:
    assert fall(fleet(12, keyless=True), 1, "a0", "a1", "a2", keyless=True)
    assert not fall(fleet(13, keyless=True), 1, "a0", "a1", "a2", keyless=True)


def test_an_agent_counts_with_its_kind_when_it_gets_a_key_or_loses_it() -> None:
    held = fleet(3, keyless=True)
    heard(held, 0, "a0", "a1", "a2")
    assert fall(held, 1, "a0", "a1", "a2")

    held = fleet(3)
    fall(held, 1, "a0", "a1")
    held.hears(leave(60, "a0"), leave(60, "a1"))
    assert not fall(held, 61, "a0", "a1", keyless=True)
    assert not fall(held, 62, "a2")


def test_an_entry_that_does_not_count_begins_nothing() -> None:
    held = fleet(3)
    assert fall(held, 0, "a0", "a1", "a2")
    held.hears(leave(60, None))
    heard(held, 60, "k0", keyless=True)

    assert not fall(held, 61, "k0", keyless=True)


def test_leaving_it_lasts_until_the_next_agent_enters() -> None:
    held = fleet(4)
    fall(held, 0, "a0", "a1", "a2")

    held.hears(leave(60, None))
    heard(held, 61, "a0", "a3")
    held.hears(enter(62, "a0"))
    assert not restricted(held)
    assert restricted(held, "a0")

    assert fall(held, 63, "a3")


def test_what_holds_everybody_is_not_begun_again() -> None:
    held = fleet(4)
    held.hears(enter(10, None))
    before = held.guard.save()()

    held.hears(enter(20, None))
    assert held.guard.save()() == before
    assert held.hears(*(enter(30, f"a{number}") for number in range(4))) == []


def test_an_agent_leaves_alone_and_is_still_held_with_everybody() -> None:
    held = guarded()
    fails(held, 0)
    held.hears(enter(1, None))

    held.hears(leave(61, "code"))

    assert errors(held) == 0
    assert restricted(held, "code")
    assert held.guard.status("code", 61).agents == ("*",)
