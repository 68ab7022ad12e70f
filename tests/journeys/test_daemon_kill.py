"""The daemon is killed repeatedly under load."""

import random
import time
from collections.abc import Iterator
from typing import Final

import pytest

from tests.conftest import StartDaemon
from tests.journeys.agents import UNBOUNDED, crowd
from tests.journeys.audit_record import assert_recorded, assert_verifies

KILLS: Final = 20
LONGEST_LIFE_S: Final = 1.0


def moments() -> Iterator[float]:
    """Yield how long to let the daemon run each time."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    return (chance.uniform(0.0, LONGEST_LIFE_S) for _ in range(KILLS))


@pytest.mark.journey
def test_every_received_decision_is_in_the_audit_after_twenty_kills(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(UNBOUNDED)

    with crowd(daemon.endpoint.bus, "a", "b", "c", asks_again=True) as history:
        for number, moment in enumerate(moments(), 1):
            time.sleep(moment)
            daemon.kill()
            daemon.launch()
            if number % 4:  # every fourth one is killed again during its start
                daemon.wait_until_ready()
                history.until_allowed()
        daemon.wait_until_ready()
        history.until_allowed()

    print(f"{len(history.heard)} decisions heard")
    assert len(history.allows) > 10 * KILLS
    assert_recorded(history, daemon.data_dir)
    assert_verifies(daemon)
