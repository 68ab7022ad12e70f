from typing import Any

import pytest

from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import BreakerMoved
from safetyd.core.guards.breaker import MAX_BREAKERS, MAX_PER_TICK, BreakerGuard, BreakerStatus
from safetyd.core.guards.circuit import MAX_CALLS, BreakerConfig
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict
from tests.core.guards.guard_rig import GuardRig, decided, settled
from tests.story import at, propose, tick

API = "api.openai.com"


class Breakers(GuardRig[BreakerGuard]):
    """Breakers between agents and a dependency."""

    def __init__(self, config: BreakerConfig | None = None) -> None:
        super().__init__(lambda: BreakerGuard(config or BreakerConfig()))

    def called(
        self,
        t: float,
        times: int = 1,
        *,
        ok: bool = False,
        agent: str = "code",
        dependency: str | None = API,
        keyless: bool = False,
    ) -> list[Event]:
        """Report outcomes of calls, a tenth of a second apart."""
        said: dict[str, Any] = {"ok": ok, "dependency": dependency, "keyless": keyless}
        outcomes = (settled(t + n / 10, f"c{n}", agent, **said) for n in range(times))
        return [caused for outcome in outcomes for caused in self.hears(outcome)]

    def probes(self, t: float, id_: str, **fields: object) -> Verdict:
        return self.asks(t, id=id_, dependency=API, **fields)

    def ends(self, t: float, id_: str, *, ok: bool = True) -> list[Event]:
        return self.hears(settled(t, id_, ok=ok, dependency=API))


def open_since(t: float, config: BreakerConfig | None = None) -> Breakers:
    breakers = Breakers(config)
    breakers.hears(moved(t, "open", "5 calls in a row failed"))
    return breakers


def half_open_since(t: float, config: BreakerConfig | None = None) -> Breakers:
    breakers = open_since(t - 30, config)
    breakers.hears(tick(t))
    return breakers


def moved(
    t: float,
    state: str,
    reason: str,
    breaker: str = API,
    agent: str | None = None,
    **fields: Any,
) -> BreakerMoved:
    return BreakerMoved(
        at=at(t),
        t=t,
        breaker=breaker,
        state=state,  # type: ignore[arg-type]
        reason=reason,
        agent=agent,
        **fields,
    )


def alone(t: float, reason: str) -> BreakerMoved:
    """Return the event that opens the breaker for agent `code` only."""
    return moved(t, "open", reason, f"{API}/code", "code")


LATE = moved(90.0, "open", "a probe had no outcome within 60 s", failed="code")


@pytest.mark.req("S1.40")
@pytest.mark.req("S1.4")
@pytest.mark.req("S1.10")
@pytest.mark.req("S1.29")
def test_five_failures_in_a_row_open_the_breaker() -> None:
    breakers = Breakers()

    assert breakers.called(0, 4) == []
    assert breakers.called(1) == [alone(1.0, "5 calls in a row failed")]


@pytest.mark.req("S1.6")
def test_open_breaker_blocks_and_says_when_to_come_back() -> None:
    verdict = open_since(0).looks(12, dependency=API)

    assert (verdict.decision, verdict.cause) == (Severity.BLOCK, "breaker_open")
    assert (verdict.rule, verdict.limit_id) == ("breaker.open", f"breaker:{API}")
    assert verdict.retry_after_s == 18
    assert all(said in verdict.reason for said in (API, "5 calls in a row failed", "18 s"))


def test_failures_older_than_the_window_still_make_a_row() -> None:
    breakers = Breakers()
    for n in range(4):
        breakers.called(100 * n)

    assert breakers.called(400) == [alone(400.0, "5 calls in a row failed")]


def test_success_ends_a_row() -> None:
    breakers = Breakers()
    breakers.called(0, 4)
    breakers.called(1, ok=True)

    assert breakers.called(2, 4) == []


@pytest.mark.req("S1.9", "S1.40")
@pytest.mark.parametrize(
    ("before_s", "successes", "opens"),
    [(10, 10, True), (10, 11, False), (60, 10, False)],
    ids=["half of twenty", "less than half", "a call has left the window"],
)
def test_half_of_twenty_calls_failing_within_a_minute_opens_the_breaker(
    before_s: float,
    successes: int,
    opens: bool,  # noqa: FBT001
) -> None:
    breakers = Breakers()
    breakers.called(100 - before_s, ok=True)
    for n in range(9):
        breakers.called(91 + n, ok=False)
        breakers.called(91.5 + n, ok=True)
    breakers.called(99.9, successes - 10, ok=True)

    expected = [alone(100.0, "10 of 20 calls failed in 60 s")] if opens else []
    assert breakers.called(100) == expected


def test_success_opens_nothing() -> None:
    breakers = Breakers(BreakerConfig(min_calls=2))
    breakers.called(0)

    assert breakers.called(1, ok=True) == []


def test_only_the_last_calls_are_kept() -> None:
    breakers = Breakers()

    breakers.called(0, MAX_CALLS + 5, ok=True)

    assert breakers.guard.breakers == (BreakerStatus(API, "closed", calls=MAX_CALLS),)


def test_outcome_without_a_proposal_is_no_call() -> None:
    breakers = Breakers()

    for n in range(9):
        assert breakers.hears(settled(n, None, ok=False, dependency=API)) == []
    assert breakers.guard.breakers == ()


def test_model_stands_in_for_a_missing_dependency() -> None:
    breakers = Breakers()
    for n in range(5):
        breakers.hears(settled(n, f"c{n}", ok=False, model="llama"))

    assert breakers.looks(5, model="llama").limit_id == "breaker:llama/code"
    assert breakers.looks(5, model="llama", dependency="cache") is ALLOWED


def test_call_with_neither_dependency_nor_model_has_no_breaker() -> None:
    breakers = open_since(0)

    assert breakers.called(1, 9, dependency=None) == []
    assert breakers.looks(2) is ALLOWED


def test_agent_that_fails_alone_is_shut_out_alone() -> None:
    breakers = Breakers()
    breakers.called(0, ok=True, agent="ops")

    caused = breakers.called(1, 5)

    assert caused == [moved(1.4, "open", "5 calls in a row failed", f"{API}/code", "code")]
    assert breakers.looks(2, dependency=API).limit_id == f"breaker:{API}/code"
    assert breakers.looks(2, dependency=API, agent="ops") is ALLOWED


def test_agents_that_fail_together_shut_everybody_out() -> None:
    breakers = Breakers()
    breakers.called(0, ok=True, agent="ops")
    breakers.called(1, agent="shop")

    breakers.called(2, 4)

    assert breakers.looks(3, dependency=API, agent="ops").rule == "breaker.open"


def test_a_single_failure_of_another_agent_does_not_block_it() -> None:
    breakers = Breakers()
    breakers.called(0, 2, ok=True, agent="ops")
    breakers.called(1, agent="ops")

    assert breakers.called(2, 5)[0] == alone(2.3, "5 calls in a row failed")
    assert breakers.looks(3, dependency=API, agent="ops") is ALLOWED


def test_failing_anonymous_agents_open_the_breaker_of_anonymous_agents_only() -> None:
    breakers = Breakers()
    breakers.called(0, agent="code")

    caused = [event for n in range(5) for event in breakers.called(n, agent=f"k{n}", keyless=True)]

    assert caused == [moved(4.0, "open", "5 calls in a row failed", keyless=True)]
    assert breakers.looks(5, dependency=API, agent="k9", keyless=True).rule == "breaker.open"
    assert breakers.looks(5, dependency=API) is ALLOWED
    assert breakers.guard.tripped[0].keyless
    assert breakers.guard.breakers[1] == BreakerStatus(API, "closed", calls=1, failures=1)
    assert breakers.called(6, 4) == [alone(6.3, "5 calls in a row failed")]


def test_name_without_a_key_is_shut_out_alone_if_others_without_one_succeed() -> None:
    breakers = Breakers()
    breakers.called(0, ok=True, agent="k0", keyless=True)
    breakers.called(1, 5, agent="k1", keyless=True)

    verdict = breakers.looks(2, dependency=API, agent="k1", keyless=True)
    assert verdict.limit_id == f"breaker:{API}/k1"
    assert breakers.looks(2, dependency=API, agent="k0", keyless=True) is ALLOWED


def test_calls_of_names_without_a_key_hide_no_failures_of_others() -> None:
    breakers = Breakers()
    for n in range(4):
        breakers.called(n)
        breakers.called(n, 100, ok=True, agent="k0", keyless=True)

    assert breakers.called(5) == [alone(5.0, "5 calls in a row failed")]


def test_the_agent_whose_shared_probe_failed_waits_longer() -> None:
    breakers = half_open_since(30)
    breakers.probes(30, "a")
    breakers.ends(31, "a", ok=False)

    assert breakers.looks(61, dependency=API).retry_after_s == 30
    assert breakers.looks(61, dependency=API, agent="ops") is ALLOWED
    assert breakers.looks(91, dependency=API) is ALLOWED


def test_an_agent_waits_no_longer_after_a_probe_of_its_own_breaker() -> None:
    breakers = Breakers()
    breakers.called(0, 5)
    breakers.probes(31, "a")
    breakers.ends(32, "a", ok=False)

    assert breakers.looks(62, dependency=API) is ALLOWED


def test_agent_shut_out_alone_leaves_the_calls_of_others() -> None:
    breakers = Breakers()
    breakers.called(0, ok=True, agent="ops")
    breakers.called(1, 9)

    assert breakers.guard.breakers[1] == BreakerStatus(API, "closed", calls=1)


def test_dependency_named_like_another_agents_breaker_does_not_shut_it_out() -> None:
    breakers = Breakers()
    breakers.called(0, 5, agent="ops", dependency=f"{API}/code")

    assert breakers.looks(1, dependency=API) is ALLOWED


@pytest.mark.req("S1.5")
def test_task_has_a_breaker_of_its_own_if_asked_for() -> None:
    breakers = Breakers(BreakerConfig(per_task=True))
    for n in range(6):
        breakers.hears(settled(n, f"c{n}", ok=False, task="t-3"))

    assert breakers.looks(5, task="t-3").limit_id == "breaker:code:t-3"
    assert breakers.looks(5, task="t-4") is ALLOWED
    assert breakers.looks(5, task="t-3", agent="ops") is ALLOWED


@pytest.mark.req("S1.5")
def test_task_has_no_breaker_unless_asked_for() -> None:
    breakers = Breakers()
    for n in range(9):
        breakers.hears(settled(n, f"c{n}", ok=False, task="t-3"))

    assert breakers.guard.breakers == ()


def test_proposal_must_pass_each_breaker_and_waits_for_the_last() -> None:
    breakers = Breakers(BreakerConfig(per_task=True))
    breakers.hears(moved(0, "open", "x"), moved(9, "open", "x", "code:t-3", "code"))

    verdict = breakers.looks(10, dependency=API, task="t-3")

    assert (verdict.limit_id, verdict.retry_after_s) == ("breaker:code:t-3", 29)


@pytest.mark.req("S1.7")
def test_breaker_is_half_open_thirty_seconds_after_the_trip() -> None:
    breakers = open_since(0)

    assert breakers.hears(tick(29.9)) == []
    assert breakers.hears(tick(30)) == [moved(30.0, "half_open", "30 s have passed")]
    assert breakers.hears(tick(31)) == []


@pytest.mark.req("S1.7")
def test_a_late_tick_does_not_delay_a_probe() -> None:
    breakers = open_since(0)

    assert breakers.looks(29.9, dependency=API).rule == "breaker.open"
    assert breakers.asks(30, dependency=API) is ALLOWED
    assert breakers.guard.tripped == breakers.guard.breakers[:1]
    assert breakers.guard.breakers[0].state == "half_open"
    assert breakers.guard.breakers[0].probes_out == 1


@pytest.mark.req("S1.12")
def test_probes_are_five_seconds_apart() -> None:
    breakers = half_open_since(30)
    breakers.probes(30, "a")

    verdict = breakers.probes(34, "b")

    assert (verdict.rule, verdict.cause) == ("breaker.probing", "breaker_open")
    assert verdict.retry_after_s == 1
    assert breakers.probes(35, "b") is ALLOWED


@pytest.mark.req("S1.11")
def test_three_probes_are_started_and_no_more() -> None:
    breakers = half_open_since(30)
    for n in range(3):
        assert breakers.probes(30 + 5 * n, f"a{n}") is ALLOWED

    verdict = breakers.probes(60, "a4")

    assert (verdict.rule, verdict.retry_after_s) == ("breaker.probing", 5)


def test_wait_for_outcomes_is_never_nothing() -> None:
    breakers = half_open_since(30, BreakerConfig(probe_count=1, probe_interval_s=0))
    breakers.probes(30, "a")

    assert breakers.probes(31, "b").retry_after_s == 1


@pytest.mark.req("S1.8")
@pytest.mark.req("S1.30")
def test_three_successes_close_the_breaker() -> None:
    breakers = half_open_since(30)
    for n in range(3):
        breakers.probes(30 + 5 * n, f"a{n}")
    breakers.ends(41, "a0")
    breakers.ends(42, "a1")

    assert breakers.ends(43, "a2") == [moved(43.0, "closed", "3 probes succeeded")]
    assert breakers.looks(43, dependency=API) is ALLOWED


@pytest.mark.req("S1.8")
def test_failed_probe_opens_the_breaker_again_for_the_whole_time() -> None:
    breakers = half_open_since(30)
    breakers.probes(30, "a")

    assert breakers.ends(33, "a", ok=False) == [
        moved(33.0, "open", "a probe failed", failed="code")
    ]
    assert breakers.looks(34, dependency=API, agent="ops").retry_after_s == 29


def test_probe_that_reports_another_dependency_is_settled_all_the_same() -> None:
    breakers = half_open_since(30)
    breakers.probes(30, "a")

    caused = breakers.hears(settled(31, "a", ok=False, dependency="cache"))

    assert caused == [moved(31.0, "open", "a probe failed", failed="code")]


def test_probe_without_an_outcome_opens_the_breaker_again() -> None:
    breakers = half_open_since(30)
    breakers.probes(30, "a")

    assert breakers.hears(tick(89.9)) == []
    assert breakers.hears(tick(90)) == [LATE]


def test_success_that_comes_too_late_opens_the_breaker_again() -> None:
    breakers = half_open_since(30)
    breakers.probes(30, "a")

    assert breakers.ends(90, "a") == [LATE]


def test_outcomes_of_calls_from_before_the_trip_are_ignored() -> None:
    breakers = half_open_since(30)
    breakers.probes(30, "a")

    assert breakers.called(31, 9) == breakers.called(32, 9, ok=True) == []


def test_outcomes_of_probes_from_before_the_last_trip_are_ignored() -> None:
    breakers = half_open_since(30)
    breakers.probes(30, "a")
    breakers.probes(35, "b")
    breakers.ends(36, "a", ok=False)
    breakers.hears(tick(66))

    assert breakers.ends(67, "b", ok=False) == []
    assert breakers.guard.breakers[0].state == "half_open"


def test_closed_breaker_begins_with_no_calls() -> None:
    breakers = Breakers()
    breakers.called(0, 4)
    breakers.hears(moved(1, "open", "x"), moved(31, "closed", "y"))

    assert breakers.called(32, 4) == []
    assert len(breakers.called(33)) == 1


def test_only_the_final_allow_takes_a_slot() -> None:
    breakers = half_open_since(30)
    proposed = propose(30, dependency=API)

    breakers.hears(
        decided(proposed, first=False),
        decided(proposed, decision=Severity.ASK),
        decided(proposed, decision=Severity.BLOCK),
    )

    assert breakers.guard.breakers[0].probes_out == 0


def test_allow_of_an_open_breaker_is_no_probe() -> None:
    breakers = open_since(0)

    breakers.hears(decided(propose(10, dependency=API)))

    assert breakers.guard.breakers[0].probes_out == 0


def test_breakers_are_bounded_and_the_closed_go_first() -> None:
    breakers = open_since(0)
    for n in range(MAX_BREAKERS + 5):
        breakers.called(n, ok=True, dependency=f"d{n}")

    known = breakers.guard.breakers
    assert len(known) == MAX_BREAKERS
    assert (known[0].breaker, known[1].breaker) == (API, "d6")


def test_more_open_breakers_than_fit_forget_the_one_open_longest() -> None:
    breakers = open_since(0)
    for n in range(MAX_BREAKERS):
        breakers.hears(moved(n, "open", "x", f"d{n}"))

    assert len(breakers.guard.breakers) == MAX_BREAKERS
    assert breakers.looks(1, dependency=API) is ALLOWED
    assert breakers.hears(moved(31, "half_open", "x")) == []


def test_breakers_of_agents_without_a_key_are_forgotten_before_all_others() -> None:
    breakers = Breakers()
    breakers.called(0, ok=True)
    breakers.called(0, ok=True, dependency="made-up", keyless=True)
    breakers.hears(
        moved(1, "open", "x", "shared", keyless=True),
        moved(1, "open", "x", "api/k0", "k0", keyless=True),
    )

    for n in range(MAX_BREAKERS):
        breakers.hears(moved(n, "open", "x", f"d{n}"))
        if n == MAX_BREAKERS - 4:
            left = {(one.breaker, one.keyless) for one in breakers.guard.breakers}
            assert left >= {(API, False), ("api/k0", True), ("shared", True)}
            assert ("made-up", True) not in left

    assert not any(one.keyless or one.breaker == API for one in breakers.guard.breakers)
    assert len(breakers.guard.breakers) == MAX_BREAKERS


def test_one_tick_moves_a_bounded_number() -> None:
    breakers = Breakers()
    for n in range(MAX_PER_TICK + 1):
        breakers.hears(moved(0, "open", "x", f"d{n}"))

    assert len(breakers.hears(tick(30))) == MAX_PER_TICK
    assert len(breakers.hears(tick(31))) == 1


def test_status_tells_why_and_since_when() -> None:
    assert open_since(7).guard.breakers == (
        BreakerStatus(API, "open", reason="5 calls in a row failed", open_t=7),
    )


def test_states_are_listed_without_counting_calls() -> None:
    breakers = open_since(0)
    breakers.hears(moved(0, "open", "x", "db"))
    breakers.hears(tick(29), moved(29, "half_open", "x", "db"))
    breakers.called(30, ok=True, dependency="cache")

    assert list(breakers.guard.states()) == [
        (API, "open"),
        ("db", "half_open"),
        ("cache", "closed"),
    ]
    assert [one.state for one in breakers.guard.breakers] == ["open", "half_open", "closed"]
