"""What is reported arrives, however much faster than the daemon takes it."""

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
# At once as many are taken as in four seconds; the others take longer than one of them may.
OUTCOMES: Final = int(PER_S * (BURST_S + 4))


@pytest.mark.journey
def test_a_script_leaves_when_all_that_it_reported_has_arrived(
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
