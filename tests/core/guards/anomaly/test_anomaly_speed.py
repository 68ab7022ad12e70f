"""What watching may cost. The figures are in the report of a run with `-rP`."""

import pytest

from safetyd.core.guards.anomaly.agent_profile import AnomalyConfig
from safetyd.core.guards.anomaly.proposal_detectors import RapidIdentical
from safetyd.core.messages.proposal import Tokens
from safetyd.core.messages.verdict import ALLOWED
from tests.core.guards.anomaly.anomaly_rig import AnomalyRig
from tests.core.guards.gate.test_gate_speed import best_s
from tests.core.guards.guard_rig import KINDS, decided, settled
from tests.story import propose

pytestmark = pytest.mark.alone


def test_look_at_a_plain_proposal_takes_a_microsecond() -> None:
    watch = AnomalyRig()
    proposed = propose(0, type="edit_file", text="x")
    kind = KINDS.of(proposed.proposal)

    took_s = best_s(lambda: watch.guard.check(proposed, kind), times=5000)

    print(f"look: {took_s * 1e6:.2f} µs")
    assert watch.guard.check(proposed, kind) is ALLOWED
    assert took_s < 0.000_005


def test_look_of_severe_detectors_takes_microseconds() -> None:
    watch = AnomalyRig(AnomalyConfig(rapid_identical=RapidIdentical(severity="high")))
    proposed = propose(0, type="edit_file", text="x")
    kind = KINDS.of(proposed.proposal)

    took_s = best_s(lambda: watch.guard.check(proposed, kind), times=2000)

    print(f"severe look: {took_s * 1e6:.2f} µs")
    assert took_s < 0.000_05


def test_decision_and_outcome_are_remembered_in_microseconds() -> None:
    watch = AnomalyRig()
    decision = decided(propose(0, type="edit_file", text="x"))
    outcome = settled(0, latency_ms=1.0, cost_usd=0.1, tokens=Tokens(input=1))
    for n in range(200):
        watch.guard.observe(settled(0, latency_ms=n % 7, cost_usd=n % 5, tokens=Tokens(input=n)))

    decision_s = best_s(lambda: watch.guard.observe(decision), times=2000)
    outcome_s = best_s(lambda: watch.guard.observe(outcome), times=500)

    print(f"decision: {decision_s * 1e6:.2f} µs, outcome: {outcome_s * 1e6:.2f} µs")
    assert decision_s < 0.000_1
    assert outcome_s < 0.000_3
