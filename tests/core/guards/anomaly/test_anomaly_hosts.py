"""Coding agents read fast and repeat commands; that alone is no anomaly."""

import msgspec
import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.guard_events import AnomalyFound, Paused
from safetyd.core.guards.anomaly.agent_profile import AnomalyConfig
from safetyd.core.guards.anomaly.proposal_detectors import RapidIdentical
from safetyd.core.messages.verdict import ALLOW, BLOCK, Severity
from safetyd.core.policy import Policy
from tests.story import play, propose

POLICY = Policy(profile="coding")


def many(type_: str, text: str, host: str, *, policy: Policy = POLICY) -> list[object]:
    """Propose the same action twelve times within four seconds; return all events."""
    engine = Engine(policy)
    found: list[object] = []
    for number in range(12):
        proposed = propose(number * 0.3, id=f"p{number}", type=type_, text=text)
        found += play(engine, msgspec.structs.replace(proposed, host=host))
    return found


def severities(events: list[object]) -> set[str]:
    return {event.severity for event in events if isinstance(event, AnomalyFound)}


@pytest.mark.parametrize(("type_", "text"), [("read_file", ""), ("run_shell", "pytest -q")])
def test_reading_and_repeating_is_at_most_a_low_finding_for_hosts(type_: str, text: str) -> None:
    usual, of_hosts = many(type_, text, ""), many(type_, text, "claude")

    assert severities(of_hosts) <= {"low"}
    assert not any(isinstance(event, Paused) for event in of_hosts)
    assert severities(usual) - {"low"}


@pytest.mark.parametrize("type_", ["read_file", "edit_file"])
def test_hosts_are_not_blocked_where_other_agents_would_be(type_: str) -> None:
    policy = Policy(anomaly=AnomalyConfig(rapid_identical=RapidIdentical(severity="high")))

    assert BLOCK in decisions(policy, type_, host="")
    assert decisions(policy, type_, host="claude") == {ALLOW}


def decisions(policy: Policy, type_: str, host: str) -> set[Severity]:
    events = many(type_, "", host, policy=policy)
    return {event.decision for event in events if isinstance(event, Decided)}
