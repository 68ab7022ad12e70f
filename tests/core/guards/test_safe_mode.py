import msgspec
import pytest

from safetyd.core.engine.engine import Engine, _listeners
from safetyd.core.events.guard_events import SafeModeEntered
from safetyd.core.guards.kernel import MAX_UNPROPOSED
from safetyd.core.guards.safe_mode import SafeModeConfig
from safetyd.core.messages.telemetry import Outcome
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict
from safetyd.core.policy import Policy
from tests.core.guards.guard_rig import decided, settled
from tests.core.guards.safe_mode_rig import (
    enter,
    entered,
    errors,
    fails,
    guarded,
    leave,
    overdue,
    state,
)
from tests.story import at, outcome, play, propose, report, tick

NAMELESS = Verdict("keys", Severity.BLOCK, "keys.agents", "one name too many")


@pytest.mark.req("S0.9")
@pytest.mark.req("S0.10")
def test_it_takes_three_errors_and_a_minute_unless_an_operator_says_otherwise() -> None:
    config = SafeModeConfig()

    assert (config.max_consecutive_errors, config.cooldown_ms) == (3, 60_000)
    assert not config.count_dependency_errors
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"max_consecutive_errors": 0}, SafeModeConfig)


@pytest.mark.req("S0.1")
@pytest.mark.req("S0.7")
def test_the_third_error_in_a_row_puts_the_agent_in_safe_mode() -> None:
    held = guarded()
    assert fails(held, 0, times=2) == []

    entries = fails(held, 1, times=1)

    assert entries == [
        SafeModeEntered(
            at=at(1), t=1, agent="code", by="safetyd", reason="3 errors in a row", errors=3
        )
    ]
    assert state(held, 1) == "safe_mode"


@pytest.mark.req("S0.9")
@pytest.mark.parametrize(("threshold", "reason"), [(1, "1 error"), (5, "5 errors in a row")])
def test_an_operator_sets_how_many(threshold: int, reason: str) -> None:
    held = guarded(max_consecutive_errors=threshold)
    assert fails(held, 0, times=threshold - 1) == []

    assert [entry.reason for entry in fails(held, 0, times=1)] == [reason]


@pytest.mark.req("S0.1")
@pytest.mark.req("S0.12")
@pytest.mark.req("S0.13")
@pytest.mark.parametrize("type_", ["edit_file", "push"])
def test_changes_are_blocked_at_once(type_: str) -> None:
    verdict = entered().looks(180, type=type_)

    assert verdict.decision is Severity.BLOCK
    assert (verdict.cause, verdict.rule) == ("safe_mode", "safe_mode_restricted")
    assert "12:02Z by safetyd: 3 errors in a row" in verdict.reason


@pytest.mark.req("S0.14")
@pytest.mark.parametrize("type_", ["frobnicate", "run_shell"])
def test_unknown_effects_are_blocked_too(type_: str) -> None:
    verdict = entered().looks(180, type=type_)

    assert (verdict.decision, verdict.rule) == (Severity.BLOCK, "safe_mode_restricted")
    assert "unknown" in verdict.reason


@pytest.mark.req("S0.11")
def test_reading_is_allowed_and_safe_mode_stays() -> None:
    held = entered()

    assert held.asks(180, type="read_file") is ALLOWED
    assert state(held, 180) == "safe_mode"
    held.hears(settled(181))
    assert state(held, 181) == "safe_mode"


@pytest.mark.req("S0.14")
@pytest.mark.parametrize("reversibility", ["reversible", "unknown", "irreversible"])
def test_a_read_that_the_agent_itself_calls_more_than_that_is_refused(reversibility: str) -> None:
    verdict = entered().looks(180, type="read_file", reversibility=reversibility)

    assert verdict.rule == "safe_mode_restricted"


def test_an_agents_words_do_not_make_a_change_read_only() -> None:
    assert entered().looks(180, type="push", reversibility="read_only") is not ALLOWED


def test_an_operators_entry_says_who_and_why_if_a_reason_is_given() -> None:
    held = guarded()

    held.hears(enter(60), enter(60, "ops", reason=""))

    drill, bare = held.looks(61, type="push"), held.looks(61, agent="ops", type="push")
    assert "12:01Z by alice: drill. " in drill.reason
    assert "12:01Z by alice. " in bare.reason


def test_an_operator_can_have_failed_dependencies_counted() -> None:
    held = guarded(count_dependency_errors=True)
    fails(held, 0, times=2)

    assert held.hears(settled(1, ok=False, dependency="api", failed_dependency=True)) != []


@pytest.mark.req("S0.8")
def test_time_does_not_end_it() -> None:
    held = entered()

    held.hears(tick(1e9), overdue(1e9))

    assert held.looks(1e9, type="push").rule == "safe_mode_restricted"


@pytest.mark.req("S0.8")
@pytest.mark.req("S0.16")
@pytest.mark.req("S0.17")
def test_an_exit_ends_it_and_resets_the_count() -> None:
    held = entered()

    held.hears(leave(180))

    assert held.looks(181, type="push") is ALLOWED
    assert (state(held, 181), errors(held)) == ("ready", 0)
    assert fails(held, 182, times=2) == []
    assert len(fails(held, 182, times=1)) == 1


def test_an_exit_of_what_is_not_in_safe_mode_changes_nothing() -> None:
    held = guarded()
    fails(held, 0, times=2)
    before = held.guard.save()()

    held.hears(leave(1), leave(1, "ops"), leave(1, None))

    assert held.guard.save()() == before


def test_an_entry_that_already_holds_is_not_begun_again() -> None:
    held = entered()
    before = held.guard.save()()

    held.hears(enter(150))

    assert held.guard.save()() == before


@pytest.mark.req("S0.3")
@pytest.mark.req("S0.4")
@pytest.mark.req("S0.5")
@pytest.mark.req("S0.6")
def test_an_agent_executes_from_the_allow_to_the_outcome() -> None:
    held = guarded()
    assert state(held, 0) == "ready"

    held.asks(1)
    assert state(held, 1) == "executing"
    held.hears(settled(2))
    assert state(held, 2) == "ready"


def test_of_several_actions_the_last_to_end_makes_it_ready() -> None:
    held = guarded()
    held.asks(0, id="p1")
    held.asks(1, id="p2")

    held.hears(settled(2, "p1", ok=False))
    assert state(held, 2) == "executing"
    held.hears(overdue(3, id="p2"))
    assert state(held, 3) == "ready"


def test_an_outcome_that_names_no_proposal_ends_no_action() -> None:
    held = guarded()
    held.asks(0)

    held.hears(settled(1, None), settled(1, None, ok=False))

    assert state(held, 2) == "executing"


def test_actions_under_way_are_seen_again_after_the_exit() -> None:
    held = guarded()
    held.asks(0, id="p1")
    fails(held, 1)

    held.hears(leave(61))
    assert state(held, 61) == "executing"
    held.hears(settled(62, "p1"))
    assert state(held, 62) == "ready"


def test_an_id_that_was_allowed_twice_does_not_count_for_ever() -> None:
    held = guarded()
    held.asks(0)
    held.asks(70)
    held.hears(settled(71))

    assert state(held, 70 + 3599) == "executing"
    assert state(held, 70 + 3600) == "ready"
    held.asks(70 + 3600, id="p2")
    held.hears(settled(70 + 3601, "p2"))
    assert state(held, 70 + 3601) == "ready"


def test_outcomes_of_unknown_actions_are_accepted() -> None:
    held = guarded()

    held.hears(overdue(0), settled(1), settled(1), overdue(2))
    assert state(held, 2) == "ready"
    held.hears(*(settled(3, ok=False) for _ in range(3)))
    assert state(held, 3) == "safe_mode"


def test_memory_does_not_grow_with_what_an_agent_does() -> None:
    once, often = guarded(), guarded()
    once.asks(0)

    for _ in range(1000):
        often.asks(0)

    assert len(often.guard.save()()) <= len(once.guard.save()()) + 2


def test_names_that_only_report_cannot_fill_the_memory() -> None:
    held = guarded()
    for number in range(MAX_UNPROPOSED):
        held.hears(settled(0, None, f"a{number}", ok=False, keyless=True))
    before = held.guard.save()()

    fails(held, 1, "one-more", keyless=True)
    assert held.guard.save()() == before

    held.asks(2, agent="one-more", keyless=True)
    assert len(fails(held, 3, "one-more", keyless=True)) == 1
    held.asks(4, agent="a0", keyless=True)
    assert len(fails(held, 5, "new", keyless=True)) == 1


def test_however_many_names_only_report_an_agent_with_a_key_is_counted() -> None:
    held = guarded()
    for number in range(MAX_UNPROPOSED):
        held.hears(settled(0, None, f"a{number}", ok=False, keyless=True))

    assert len(fails(held, 1, "code")) == 1


def test_a_name_that_was_refused_is_not_remembered() -> None:
    held = guarded()

    held.hears(decided(propose(0, keyless=True), NAMELESS))

    assert held.guard.save()() == guarded().guard.save()()


def engine() -> Engine:
    """An engine with only these guards."""
    made = Engine(Policy())
    made._guards = (made.guards.stop, made.guards.keys, made.guards.gate, made.guards.safe_mode)
    made._listeners = _listeners((*made._guards, made.sessions, made.actions))
    return made


def test_each_proposal_counts_once_and_a_refused_one_does_not() -> None:
    held = engine()

    journal = play(
        held,
        propose(0),
        *(outcome(1, ok=False) for _ in range(5)),
        propose(2, id="p2", type="run_shell", text="rm -rf /"),
        *(outcome(3, "p2", ok=False) for _ in range(5)),
        report(4, Outcome(ok=False)),
    )

    assert not any(isinstance(event, SafeModeEntered) for event in journal)
    assert isinstance(play(held, report(5, Outcome(ok=False)))[-1], SafeModeEntered)


def test_holds_say_of_each_kernel_since_when_by_whom_why_and_how_long_it_must_last() -> None:
    held = entered()
    held.hears(enter(150, None))

    everybodys, own = held.guard.holds("code", 160)

    assert (everybodys.agent, everybodys.by, everybodys.reason) == ("*", "alice", "drill")
    assert (own.agent, own.by, own.reason) == ("code", "safetyd", "3 errors in a row")
    assert (everybodys.since, own.since) == (at(150), at(120))
    assert (everybodys.cooldown_remaining_ms, own.cooldown_remaining_ms) == (50_000, 20_000)
    assert [hold.agent for hold in held.guard.holds("ops", 160)] == ["*"]
