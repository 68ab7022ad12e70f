"""The cost of anomaly detection, compared with parsing a proposal."""

from safetyd.core.guards.anomaly.agent_profile import AnomalyConfig
from safetyd.core.guards.anomaly.proposal_detectors import RapidIdentical
from safetyd.core.messages.proposal import Tokens
from safetyd.core.messages.verdict import ALLOWED
from tests.core.guards.anomaly.anomaly_rig import HOUR, AnomalyRig
from tests.core.guards.guard_rig import KINDS, decided, settled
from tests.cost import ratio, reading
from tests.story import propose

TIMES = 100


def test_look_at_a_plain_proposal_costs_a_fraction() -> None:
    watch = AnomalyRig()
    proposed = propose(0, type="edit_file", text="x")
    kind = KINDS.of(proposed.proposal)

    cost = ratio(lambda: watch.guard.check(proposed, kind), reading, TIMES)

    assert watch.guard.check(proposed, kind) is ALLOWED
    assert cost < 0.5


def test_look_of_severe_detectors_costs_about_as_much() -> None:
    watch = AnomalyRig(AnomalyConfig(rapid_identical=RapidIdentical(severity="high")))
    proposed = propose(0, type="edit_file", text="x")
    kind = KINDS.of(proposed.proposal)

    assert ratio(lambda: watch.guard.check(proposed, kind), reading, TIMES) < 5


def test_decision_and_outcome_are_remembered_for_a_few() -> None:
    watch = AnomalyRig()
    decision = decided(propose(0, type="edit_file", text="x"))
    outcome = settled(0, latency_ms=1.0, cost_usd=0.1, tokens=Tokens(input=1))
    for n in range(200):
        watch.guard.observe(settled(0, latency_ms=n % 7, cost_usd=n % 5, tokens=Tokens(input=n)))

    assert ratio(lambda: watch.guard.observe(decision), reading, TIMES) < 5
    assert ratio(lambda: watch.guard.observe(outcome), reading, TIMES) < 15


def test_outcome_after_a_dear_hour_costs_as_much_as_after_a_dear_minute() -> None:
    minute, hour = AnomalyRig(), AnomalyRig()
    minute.works(HOUR, cost_usd=9)
    for t in range(0, 3601, 60):
        hour.works(t, cost_usd=9)
    outcome = settled(HOUR, cost_usd=9)

    after_an_hour = ratio(
        lambda: hour.guard.observe(outcome), lambda: minute.guard.observe(outcome), TIMES
    )

    assert hour.guard.gauges("code", HOUR).cost_per_hour_usd > 500
    assert after_an_hour < 1.5
