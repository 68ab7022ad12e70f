"""Detectors for outcomes, reported metrics and breakers."""

import math

import pytest

from safetyd.core.events.guard_events import BreakerMoved, Paused
from safetyd.core.guards.anomaly.agent_profile import MAX_MODELS, AnomalyConfig
from safetyd.core.guards.anomaly.baselines import EwmaLatency, Outlier, standing
from safetyd.core.guards.anomaly.usage_detectors import (
    MAX_BREAKERS,
    BreakerOscillation,
    CostPerHour,
    ErrorRate,
    EscalatingCost,
)
from safetyd.core.messages.proposal import Tokens
from safetyd.core.messages.telemetry import Commit, Heartbeat, Iteration, Metrics
from safetyd.core.messages.verdict import Severity
from tests.core.guards.anomaly.anomaly_rig import HOUR, AnomalyRig, told
from tests.core.guards.guard_rig import decided, settled
from tests.story import at, propose, report

NO_OUTLIERS = AnomalyConfig(outlier=Outlier(enabled=False))
ONLY_OUTLIERS = AnomalyConfig(
    cost_per_hour=CostPerHour(enabled=False),
    error_rate=ErrorRate(enabled=False),
    escalating_cost=EscalatingCost(enabled=False),
    ewma_latency=EwmaLatency(enabled=False),
)


@pytest.mark.req("S2.31")
def test_five_outcomes_each_dearer_than_the_last_escalate() -> None:
    watch = AnomalyRig()
    found = [watch.works(n, cost_usd=n / 100) for n in range(5)]

    assert found == [[], [], [], [], ["escalating_cost"]]
    assert watch.messages == ["Escalating resource usage detected"]
    assert watch.guard.findings[0].severity == "medium"


@pytest.mark.req("S2.31")
def test_equal_cost_and_no_cost_do_not_escalate() -> None:
    watch = AnomalyRig()
    costs = (0.1, 0.2, 0.2, 0.3, 0.4, 0.5, None, 0.6, 0.7)

    assert [watch.works(n, cost_usd=cost) for n, cost in enumerate(costs)] == [[]] * 9


@pytest.mark.req("S2.29")
@pytest.mark.req("S2.43")
def test_more_than_twenty_rounds_in_an_hour_are_many() -> None:
    watch = AnomalyRig()
    found = [watch.says(100 * n, Iteration()) for n in range(21)]

    assert found == [[]] * 20 + [["iterations_per_hour"]]
    assert watch.messages == ["High iteration velocity: 21/hr"]
    assert watch.guard.gauges("code", 2000).iterations_per_hour == 21


def test_allowed_dispatches_are_rounds_and_others_are_not() -> None:
    watch = AnomalyRig()
    allowed = [watch.proposes(100 * n, type="dispatch", text=str(n)) for n in range(21)]
    for n in range(9):
        watch.hears(decided(propose(2100 + n, type="dispatch"), decision=Severity.BLOCK))

    assert allowed[-1] == ["iterations_per_hour"]
    assert watch.guard.gauges("code", 2200).iterations_per_hour == 21


def test_rounds_and_dispatches_are_not_added_up() -> None:
    watch = AnomalyRig()
    for n in range(15):
        watch.says(n, Iteration())
        watch.proposes(n, type="dispatch")

    assert watch.guard.gauges("code", 15).iterations_per_hour == 15


def test_rounds_of_an_hour_ago_are_forgotten() -> None:
    watch = AnomalyRig()
    for n in range(20):
        watch.says(100 * n, Iteration())

    assert watch.says(HOUR, Iteration()) == []
    assert watch.guard.gauges("code", HOUR).iterations_per_hour == 20
    assert watch.guard.gauges("code", 3 * HOUR).iterations_per_hour == 0


def test_many_rounds_in_a_minute_are_all_counted() -> None:
    watch = AnomalyRig()
    for n in range(500):
        watch.says(n / 10, Iteration())

    assert watch.guard.gauges("code", 60).iterations_per_hour == 500


@pytest.mark.req("S2.29")
@pytest.mark.req("S2.43")
def test_more_than_five_dollars_in_an_hour_are_much() -> None:
    watch = AnomalyRig(NO_OUTLIERS)
    found = [watch.works(60 * n, cost_usd=0.1) for n in range(50)]

    assert found == [[]] * 50
    assert watch.works(3100, cost_usd=0.2) == ["cost_per_hour"]
    assert watch.messages == ["High API cost: $5.20/hr"]
    assert watch.guard.gauges("code", 3100).cost_per_hour_usd == 5.2


def test_the_price_of_a_purchase_is_no_api_cost() -> None:
    watch = AnomalyRig(NO_OUTLIERS)

    assert watch.works(0, type="purchase", cost_usd=549.0) == []
    assert watch.works(1, type="purchase", cost_usd=549.0, priced_nano=1_000_000_000) == []
    assert watch.guard.gauges("code", 2).cost_per_hour_usd == 1.0


def test_price_of_the_tokens_counts_where_it_is_larger() -> None:
    watch = AnomalyRig()
    watch.works(0, cost_usd=1.0, priced_nano=2_000_000_000)
    watch.works(1, cost_usd=1.0, priced_nano=10)
    watch.works(2, priced_nano=1_000_000_000)

    assert watch.guard.gauges("code", 3).cost_per_hour_usd == 4.0


@pytest.mark.req("S2.29")
@pytest.mark.req("S2.43")
def test_commit_of_more_than_ten_files_is_large() -> None:
    watch = AnomalyRig()

    assert watch.says(0, Commit(ref="a", files_changed=10)) == []
    assert watch.says(1, Commit(ref="b", files_changed=14)) == ["files_per_commit"]
    assert watch.messages == ["Many file changes: 14 files"]
    assert watch.guard.gauges("code", 1).files_per_commit == 14


def test_outcome_of_a_commit_tells_its_files_too() -> None:
    watch = AnomalyRig()

    assert watch.works(0, type="git_commit", files_changed=14) == ["files_per_commit"]


def test_files_of_anything_but_a_commit_are_not_counted() -> None:
    watch = AnomalyRig()

    assert watch.works(0, type="edit_file", files_changed=14) == []
    assert watch.says(1, Commit(ref="a")) == []
    assert watch.works(2, type="git_commit") == []


@pytest.mark.req("S2.29")
@pytest.mark.req("S2.43")
def test_more_than_one_error_in_twenty_is_a_high_rate() -> None:
    watch = AnomalyRig()
    for n in range(37):
        watch.works(n)
    found = [watch.works(40 + n, ok=False) for n in range(3)]

    assert found == [[], ["error_rate"], []]
    assert watch.messages == ["High error rate: 5.1%"]
    assert watch.guard.gauges("code", 43).error_ratio == 0.075


def test_error_rate_waits_for_twenty_outcomes() -> None:
    watch = AnomalyRig()
    found = [watch.works(n, ok=False) for n in range(20)]

    assert found == [[]] * 19 + [["error_rate"]]


def test_error_ratio_is_zero_until_there_are_enough_outcomes_to_tell() -> None:
    watch = AnomalyRig()
    ratios: list[float] = []
    for n in range(20):
        watch.works(n, ok=n > 0)
        ratios.append(watch.guard.gauges("code", n).error_ratio)

    assert ratios == [0.0] * 19 + [0.05]


def test_only_the_last_hundred_outcomes_make_the_error_rate() -> None:
    watch = AnomalyRig()
    for n in range(20):
        watch.works(n, ok=False)
    for n in range(96):
        watch.works(20 + n)

    assert watch.guard.gauges("code", 200).error_ratio == 0.04


@pytest.mark.req("S2.29")
def test_numbers_that_an_agent_reports_count_where_they_are_larger() -> None:
    watch = AnomalyRig()
    metrics = Metrics(
        iterations_per_hour=21,
        api_cost_last_hour=5.2,
        files_changed_per_commit=14,
        error_rate=0.075,
    )

    assert watch.says(0, metrics) == [
        "iterations_per_hour",
        "files_per_commit",
        "cost_per_hour",
        "error_rate",
    ]
    assert watch.messages == [
        "High iteration velocity: 21/hr",
        "Many file changes: 14 files",
        "High API cost: $5.20/hr",
        "High error rate: 7.5%",
    ]


def test_numbers_that_are_smaller_than_ours_change_nothing() -> None:
    watch = AnomalyRig()
    watch.says(0, Commit(ref="a", files_changed=9))

    watch.says(1, Metrics(files_changed_per_commit=1, error_rate=0))

    assert watch.guard.gauges("code", 2).files_per_commit == 9


def test_what_an_agent_says_of_itself_counts_for_an_hour() -> None:
    watch = AnomalyRig()
    watch.says(0, Metrics(iterations_per_hour=15))

    assert watch.guard.gauges("code", HOUR - 1).iterations_per_hour == 15
    assert watch.guard.gauges("code", HOUR).iterations_per_hour == 0


def test_exactly_at_the_limits_nothing_is_found() -> None:
    watch = AnomalyRig()
    metrics = Metrics(
        iterations_per_hour=20, api_cost_last_hour=5, files_changed_per_commit=10, error_rate=0.05
    )

    assert watch.says(0, metrics) == []


@pytest.mark.req("S2.33")
@pytest.mark.req("S1.43")
def test_value_more_than_three_deviations_off_is_an_outlier() -> None:
    watch = AnomalyRig(ONLY_OUTLIERS)
    for n in range(10):
        watch.works(n, latency_ms=1000 if n % 2 else 1200)

    assert watch.works(10, latency_ms=1400) == []
    assert watch.works(11, latency_ms=8200) == ["outlier"]
    assert watch.messages == ["Statistical outlier: latency 8.2 s (mean 1.1 s, z 55.0)"]
    assert watch.guard.findings[0].severity == "low"


@pytest.mark.req("S2.33")
@pytest.mark.req("S1.25")
def test_nothing_is_an_outlier_before_ten_samples() -> None:
    watch = AnomalyRig(ONLY_OUTLIERS)
    found = [watch.works(n, latency_ms=10**n) for n in range(10)]

    assert found == [[]] * 10


@pytest.mark.req("S2.33")
def test_where_nothing_varies_any_difference_is_an_outlier() -> None:
    watch = AnomalyRig(ONLY_OUTLIERS)
    for n in range(10):
        watch.works(n, cost_usd=0.1)

    assert watch.works(10, cost_usd=0.1) == []
    assert watch.works(11, cost_usd=0.09) == ["outlier"]
    assert watch.messages == ["Statistical outlier: cost $0.09 (mean $0.10, z -inf)"]


def test_tokens_are_compared_as_well() -> None:
    watch = AnomalyRig(ONLY_OUTLIERS)
    for n in range(10):
        watch.works(n, tokens=Tokens(input=1000, output=n))

    assert watch.works(10, tokens=Tokens(input=52_000)) == ["outlier"]
    assert watch.messages[0].startswith("Statistical outlier: tokens 52000 (mean 1004, z ")


def test_outcome_that_says_nothing_of_itself_is_no_sample() -> None:
    watch = AnomalyRig(ONLY_OUTLIERS)
    for n in range(9):
        watch.works(n, latency_ms=1000)
    watch.works(9)

    assert watch.works(10, latency_ms=9000) == []


@pytest.mark.req("S1.25")
def test_each_model_has_a_baseline_of_its_own() -> None:
    watch = AnomalyRig(ONLY_OUTLIERS)
    for n in range(10):
        watch.works(n, latency_ms=1000, model="small")

    assert watch.works(10, latency_ms=9000, model="large") == []
    assert watch.works(11, latency_ms=9000, model="small") == ["outlier"]


def test_baselines_of_an_agent_are_bounded() -> None:
    watch = AnomalyRig(ONLY_OUTLIERS)
    for n in range(10):
        watch.works(n, latency_ms=1000, model="m")
    for n in range(MAX_MODELS):
        watch.works(n, latency_ms=1000, model=f"m{n}")

    assert watch.works(20, latency_ms=9000, model="m") == []


def test_no_number_is_too_large_to_compare() -> None:
    watch = AnomalyRig(ONLY_OUTLIERS)
    for n in range(10):
        watch.works(n, latency_ms=1e308, cost_usd=1e308)

    assert watch.works(10, latency_ms=1.0, cost_usd=1e308) == ["outlier"]


def test_standing_is_by_population_variance() -> None:
    mean, z = standing(5.0, [1.0, 3.0])

    assert (mean, z) == (2.0, 3.0)


def test_standing_among_equals_is_nothing_or_infinite() -> None:
    assert standing(0.1, [0.1] * 10) == (0.1, 0.0)
    assert standing(0.2, [0.1] * 10) == (0.1, math.inf)


@pytest.mark.req("S1.43")
def test_latency_that_drifts_to_twice_its_average_is_found() -> None:
    watch = AnomalyRig(NO_OUTLIERS)
    for n in range(40):
        watch.works(n, latency_ms=1900)

    found = [watch.works(40 + n, latency_ms=8000) for n in range(4)]

    assert found == [[], ["ewma_latency"], [], []]
    assert watch.messages == ["Latency drift: 5.0 s, usually 2.3 s"]


@pytest.mark.req("S1.25")
def test_latency_may_do_as_it_likes_for_thirty_outcomes() -> None:
    watch = AnomalyRig(NO_OUTLIERS)
    found = [watch.works(n, latency_ms=10 + 1000 * (n > 20)) for n in range(30)]

    assert found == [[]] * 30
    assert watch.works(30, latency_ms=1010) == ["ewma_latency"]


def test_short_latencies_keep_their_digits() -> None:
    watch = AnomalyRig(NO_OUTLIERS)
    for n in range(31):
        watch.works(n, latency_ms=4 + 400 * (n > 28))

    assert watch.messages == ["Latency drift: 0.21 s, usually 0.028 s"]


def test_outcome_of_an_unknown_agent_is_not_remembered() -> None:
    watch = AnomalyRig()

    assert watch.hears(settled(0, None, "stranger")) == []
    assert watch.guard.agents == ()


def test_telemetry_makes_only_agents_with_a_key_known() -> None:
    watch = AnomalyRig()
    keyless = report(0, Heartbeat(), "stranger")
    keyless.keyless = True

    watch.hears(keyless, report(0, Heartbeat(), "code"))

    assert watch.guard.agents == ("code",)


def test_keyless_agent_that_proposed_is_heard() -> None:
    watch = AnomalyRig()
    watch.knows()
    keyless = report(0, Commit(ref="a", files_changed=14))
    keyless.keyless = True

    assert told(watch.hears(keyless)) == ["files_per_commit"]


@pytest.mark.req("S1.24")
def test_breaker_that_trips_three_times_in_ten_minutes_oscillates() -> None:
    watch = AnomalyRig()

    assert watch.trips(0) == watch.trips(300) == []
    (found,) = watch.trips(599)

    assert told([found]) == ["breaker_oscillation"]
    assert watch.messages == ["Oscillating breaker: openai tripped 3 times in 10 min"]
    assert watch.guard.findings[0].severity == "high"
    assert watch.guard.findings[0].breaker == "openai"


@pytest.mark.req("S1.24")
def test_trips_that_are_far_apart_or_of_others_are_no_oscillation() -> None:
    watch = AnomalyRig()
    caused = [*watch.trips(0), *watch.trips(1), *watch.trips(2, "other"), *watch.trips(600)]

    assert caused == []


def test_moves_other_than_trips_are_no_oscillation() -> None:
    watch = AnomalyRig()
    moved = BreakerMoved(at=at(0), t=0, breaker="openai", state="half_open", reason="x")

    assert watch.hears(moved, moved, moved) == []


@pytest.mark.req("S2.35")
def test_agent_whose_own_breaker_oscillates_is_paused() -> None:
    watch = AnomalyRig()
    watch.trips(0, "openai/code", "code")
    watch.trips(1, "openai/code", "code")

    _, paused = watch.trips(2, "openai/code", "code")

    assert paused == Paused(
        at=at(2),
        t=2.0,
        agent="code",
        source="anomaly",
        by="safetyd",
        reason="Oscillating breaker: openai/code tripped 3 times in 10 min",
        usual="fewer than 3 times",
    )


def test_oscillation_can_be_switched_off() -> None:
    off = BreakerOscillation(enabled=False)
    watch = AnomalyRig(AnomalyConfig(breaker_oscillation=off))

    assert [watch.trips(t) for t in range(5)] == [[]] * 5


def test_breakers_that_are_remembered_are_bounded() -> None:
    watch = AnomalyRig()
    watch.trips(0)
    watch.trips(0)
    for n in range(MAX_BREAKERS):
        watch.trips(0, f"b{n}")

    assert watch.trips(0) == []
