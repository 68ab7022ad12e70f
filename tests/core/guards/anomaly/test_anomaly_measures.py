"""The numbers that detectors compare, as shown in charts."""

import pytest

from safetyd.core.guards.anomaly.agent_profile import AnomalyConfig
from safetyd.core.guards.anomaly.baselines import MAX_SAMPLES, EwmaLatency, Outlier, spread
from safetyd.core.guards.anomaly.measures import Measure
from safetyd.core.guards.anomaly.usage_detectors import ErrorRate
from safetyd.core.messages.proposal import Tokens
from safetyd.core.messages.telemetry import Commit, Iteration, Metrics
from tests.core.guards.anomaly.anomaly_rig import AnomalyRig


def measured(rig: AnomalyRig, detector: str, t: float) -> Measure:
    (measure,) = rig.guard.measures("code", t, (detector,))
    return measure


def test_every_detector_that_keeps_a_number_of_an_agent_shows_it() -> None:
    rig = AnomalyRig()
    rig.works(1.0, latency_ms=500.0, model="m")

    measures = list(rig.guard.measures("code", 1.0))

    assert [one.detector for one in measures] == [
        "rapid_identical",
        "repeated_action",
        "loop_action_type",
        "rapid_actions",
        "escalating_cost",
        "iterations_per_hour",
        "cost_per_hour",
        "error_rate",
        "files_per_commit",
        "outlier",
        "ewma_latency",
    ]
    assert {one.agent for one in measures} == {"code"}


def test_an_unknown_agent_has_no_measures() -> None:
    assert list(AnomalyRig().guard.measures("nobody", 1.0)) == []


def test_a_detector_that_is_off_shows_nothing() -> None:
    rig = AnomalyRig(AnomalyConfig(error_rate=ErrorRate(enabled=False)))
    rig.knows()

    assert list(rig.guard.measures("code", 1.0, ("error_rate",))) == []


def test_the_same_action_again_is_shown_with_its_times() -> None:
    rig = AnomalyRig()
    rig.clicks(0.0, 8.0, 9.0)

    rapid = measured(rig, "rapid_identical", 12.0)

    assert (rapid.now, rapid.most) == (2, 4)
    assert (rapid.values, rapid.ages_s) == ((1.0, 1.0, 1.0), (12.0, 4.0, 3.0))
    assert measured(rig, "repeated_action", 12.0).now == 3
    assert measured(rig, "loop_action_type", 12.0).now == 3
    assert measured(rig, "rapid_actions", 12.0).now == 2


def test_an_agent_that_has_proposed_nothing_of_the_kind_shows_no_times() -> None:
    rig = AnomalyRig()
    rig.says(0.0, Iteration())

    assert measured(rig, "rapid_identical", 1.0).values == ()


def test_the_rounds_of_the_last_hour_are_shown_by_the_minute() -> None:
    rig = AnomalyRig()
    for t in (0.0, 10.0, 100.0):
        rig.says(t, Iteration())

    rounds = measured(rig, "iterations_per_hour", 110.0)

    assert (rounds.now, rounds.most) == (3.0, 20.0)
    assert (rounds.values, rounds.ages_s) == ((2.0, 1.0), (110.0, 10.0))
    assert measured(rig, "iterations_per_hour", 3650.0).values == (1.0,)


def test_what_an_agent_says_of_itself_is_shown_where_it_is_more() -> None:
    rig = AnomalyRig()
    rig.says(0.0, Metrics(iterations_per_hour=7.0))

    rounds = measured(rig, "iterations_per_hour", 1.0)

    assert (rounds.now, rounds.values) == (7.0, ())


def test_money_errors_and_files_are_shown() -> None:
    rig = AnomalyRig()
    for t, usd in ((1.0, 0.5), (2.0, 1.0), (100.0, 1.5)):
        rig.works(t, ok=t > 1.0, cost_usd=usd)
    rig.says(101.0, Commit(ref="4f2a", files_changed=4))

    cost, errors = (measured(rig, name, 101.0) for name in ("cost_per_hour", "error_rate"))

    assert (cost.unit, cost.now, cost.most, cost.values) == ("usd", 3.0, 5.0, (1.5, 1.5))
    assert (errors.now, errors.most, errors.values) == (0.0, 0.05, (1, 0, 0))
    assert measured(rig, "escalating_cost", 101.0).now == 3
    assert measured(rig, "files_per_commit", 101.0).now == 4


def test_what_is_usual_for_a_model_is_shown_once_enough_is_known() -> None:
    rig = AnomalyRig(AnomalyConfig(outlier=Outlier(at_least=2)))
    rig.works(1.0, latency_ms=1000.0, model="m")
    rig.works(2.0, latency_ms=3000.0, model="m")
    first = measured(rig, "outlier", 2.0)
    rig.works(3.0, latency_ms=9000.0, model="m")

    latency = measured(rig, "outlier", 3.0)

    assert (first.now, first.usual, first.most) == (3.0, None, None)
    assert (latency.unit, latency.model, latency.now) == ("s", "m", 9.0)
    assert (latency.usual, latency.deviation) == (2.0, 1.0)
    assert (latency.least, latency.most) == (0.0, 5.0)
    assert latency.values == (1.0, 3.0, 9.0)


def test_cost_and_tokens_of_a_model_are_series_of_their_own() -> None:
    rig = AnomalyRig()
    rig.works(1.0, cost_usd=0.25, tokens=Tokens(input=10, output=5), model="m")

    kept = [(one.unit, one.values) for one in rig.guard.measures("code", 1.0, ("outlier",))]

    assert kept == [("usd", (0.25,)), ("tokens", (15.0,))]
    assert list(rig.guard.measures("code", 1.0, ("ewma_latency",))) == []


def test_the_latency_of_late_is_shown_beside_the_usual_one() -> None:
    rig = AnomalyRig(AnomalyConfig(ewma_latency=EwmaLatency(after=1, fast=0.5, slow=0.25)))
    rig.works(1.0, latency_ms=1000.0)
    first = measured(rig, "ewma_latency", 1.0)
    rig.works(2.0, latency_ms=3000.0)

    drift = measured(rig, "ewma_latency", 2.0)

    assert (first.usual, first.most) == (1.0, None)
    assert (drift.now, drift.usual, drift.most, drift.model) == (2.0, 1.5, 3.0, "")


def test_a_series_is_bounded() -> None:
    rig = AnomalyRig(AnomalyConfig(error_rate=ErrorRate(last=1000)))
    for t in range(MAX_SAMPLES + 20):
        rig.works(float(t))

    assert len(measured(rig, "error_rate", 999.0).values) == MAX_SAMPLES


def test_how_often_a_breaker_opened_is_shown() -> None:
    rig = AnomalyRig()
    rig.trips(0.0)
    rig.trips(500.0)
    rig.trips(590.0)
    (found,) = rig.guard.findings

    trips = rig.guard.trips(found, 601.0)

    assert trips is not None
    assert (trips.breaker, trips.now, trips.most) == ("openai", 2, 2)
    assert trips.ages_s == (601.0, 101.0, 11.0)
    assert AnomalyRig().guard.trips(found, 601.0) is None


@pytest.mark.parametrize(
    ("numbers", "expected"), [([2.0, 2.0], (2.0, 0.0)), ([1.0, 3.0], (2.0, 1.0))]
)
def test_spread_is_the_mean_and_the_deviation_from_it(
    numbers: list[float], expected: tuple[float, float]
) -> None:
    assert spread(numbers) == expected
