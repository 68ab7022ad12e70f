"""The status of safe mode, and ways to exit it."""

import pytest

from safetyd.core.guards.safe_mode import Exit, SafeMode, SafeModeStatus
from tests.core.guards.guard_rig import GuardRig
from tests.core.guards.safe_mode_rig import enter, entered, fails, guarded, leave
from tests.story import at


@pytest.mark.req("S0.15")
def test_status_of_an_agent() -> None:
    assert entered().guard.status("code", 130.5) == SafeModeStatus(
        active=True,
        state="safe_mode",  # type: ignore[arg-type]
        consecutive_errors=3,
        threshold=3,
        since=at(120),
        cooldown_remaining_ms=49_500,
        agent="code",
        agents=("code",),
    )


@pytest.mark.req("S0.15")
def test_status_of_an_unknown_agent() -> None:
    assert entered().guard.status("new", 130) == SafeModeStatus(
        active=False,
        state="ready",  # type: ignore[arg-type]
        consecutive_errors=0,
        threshold=3,
        since=None,
        cooldown_remaining_ms=0,
        agent="new",
        agents=(),
    )


@pytest.mark.req("S0.15")
def test_status_of_all_is_active_if_any_kernel_is() -> None:
    held = entered()
    held.asks(121, agent="ops")
    assert held.guard.status(None, 121).agents == ("code",)

    held.hears(enter(150, None))
    status = held.guard.status(None, 170)

    assert (status.active, status.state, status.agent) == (True, "safe_mode", None)
    assert (status.since, status.cooldown_remaining_ms) == (at(120), 40_000)
    assert (status.consecutive_errors, status.agents) == (3, ("*", "code"))


def test_status_of_all_without_safe_mode_is_that_of_the_busiest() -> None:
    held = guarded()
    assert held.guard.status(None, 0).state == "ready"
    fails(held, 0, "ops", times=2)
    held.asks(0)

    status = held.guard.status(None, 1)

    assert (status.active, status.state, status.consecutive_errors) == (False, "executing", 2)


def test_status_tells_an_agent_that_everybody_is_in_safe_mode() -> None:
    held = entered()
    held.hears(enter(150, None))

    assert held.guard.status("ops", 150).agents == ("*",)
    assert held.guard.status("code", 150).agents == ("*", "code")
    assert held.guard.status("ops", 150).state == "safe_mode"


def test_an_agent_that_was_put_in_safe_mode_unheard_stays_known() -> None:
    held = guarded()
    assert not held.guard.knows("code")

    held.hears(enter(1), leave(70))

    assert held.guard.knows("code")


def exits(held: GuardRig[SafeMode], t: float, agent: str | None = None, **flags: bool) -> Exit:
    return held.guard.plan_exit(
        agent, t, all_=flags.get("all_", False), force=flags.get("force", False)
    )


@pytest.mark.req("S0.10")
@pytest.mark.req("S0.16")
@pytest.mark.parametrize("agent", [None, "code"])
def test_an_exit_must_wait_for_the_cooldown(agent: str | None) -> None:
    held = entered()

    early = exits(held, 179.999, agent)

    assert early == Exit(agents=("code",), error="cooling_down", cooldown_remaining_ms=1)
    assert exits(held, 180, agent) == Exit(agents=("code",))


def test_force_does_not_wait() -> None:
    assert exits(entered(), 120, force=True) == Exit(agents=("code",))


def test_the_cooldown_does_not_suffer_from_fractions() -> None:
    held = guarded()
    held.hears(enter(0.1))

    assert exits(held, 60.1) == Exit(agents=("code",))


@pytest.mark.parametrize("agent", [None, "code", "*"])
def test_exiting_what_is_not_in_safe_mode_is_a_success_that_changes_nothing(
    agent: str | None,
) -> None:
    assert exits(guarded(), 0, agent) == Exit(agents=())
    assert exits(guarded(), 0, agent, all_=True) == Exit(agents=())


def test_an_exit_that_could_mean_several_lists_them() -> None:
    held = entered()
    held.hears(enter(121, "ops"), enter(122, None))

    assert exits(held, 500, force=True) == Exit(agents=("*", "code", "ops"), error="several")
    assert exits(held, 500, "ops") == Exit(agents=("ops",))
    assert exits(held, 500, "*") == Exit(agents=("*",))


def test_an_exit_of_all_waits_for_the_last() -> None:
    held = entered()
    held.hears(enter(140, "ops"))

    early = exits(held, 190, all_=True)

    assert (early.error, early.cooldown_remaining_ms) == ("cooling_down", 10_000)
    assert exits(held, 190, "code") == Exit(agents=("code",))
    assert exits(held, 200, all_=True) == Exit(agents=("code", "ops"))


def test_errors_in_a_row_are_those_of_one_agent() -> None:
    held = guarded()
    fails(held, 0, "ops", times=2)

    assert (held.guard.errors("ops"), held.guard.errors("code")) == (2, 0)
