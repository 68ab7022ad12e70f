"""Outcomes are delivered even if they are reported faster than the daemon accepts them."""

from typing import Final

import pytest

from safetyd.agents.intake import BURST_S
from safetyd.client import SyncSafety
from safetyd.core.events.decision_events import Reported
from safetyd.core.guards.rate.rate import RateConfig
from safetyd.core.messages.telemetry import Outcome
from tests.conftest import StartDaemon
from tests.journeys.audit_record import events

PER_S: Final = RateConfig().attempts_per_second
# The daemon accepts a burst at once. The rest takes longer than the limit for one outcome.
OUTCOMES: Final = int(PER_S * (BURST_S + 4))


@pytest.mark.journey
def test_closing_waits_until_all_outcomes_are_delivered(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon()

    with SyncSafety("code", data_dir=daemon.data_dir) as safety:
        assert all(safety.report(f"p{number}", ok=True) for number in range(OUTCOMES))

    daemon.stop()
    told = [event.telemetry for event in events(daemon.data_dir) if isinstance(event, Reported)]
    assert [one.id for one in told if isinstance(one, Outcome)] == [
        f"p{number}" for number in range(OUTCOMES)
    ]
