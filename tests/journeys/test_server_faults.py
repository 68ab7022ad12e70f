"""The nats-server of a daemon is killed and frozen."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

import pytest

from safetyd.journal.commit_loop import ALLOW_LEAVES_WITHIN_S
from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.agents import UNBOUNDED, History, crowd
from tests.journeys.audit_record import assert_recorded, assert_verifies
from tests.journeys.processes import freeze, kill, server_pid, thaw

STALE: Final = timedelta(seconds=2 * ALLOW_LEAVES_WITHIN_S)
# A short freeze that the daemon does not notice, and one in which it drops its connection.
MOMENTS_S: Final = (0.8, 1.9)


def strike(fault: Callable[[int], None], daemon: RunningDaemon, history: History) -> float:
    """Return the seconds from a fault to the first `allow` of a later proposal."""
    history.until_allowed()
    struck = time.monotonic()
    fault(server_pid(daemon))
    resumed = history.until_allowed()

    replies = [heard for heard in history.heard if heard.replied and heard.t >= resumed.t]
    assert not [reply for reply in replies if history.sent[reply.id] < struck]
    return resumed.t - struck


@pytest.mark.journey
def test_answers_resume_after_a_server_fault_and_none_is_stale(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(UNBOUNDED)

    with crowd(daemon.endpoint.bus, "a", "b") as history:
        for fault in (kill, kill, freeze, freeze):
            print(f"{fault.__name__}: answers after {strike(fault, daemon, history):.2f} s")

    assert max(heard.age for heard in history.allows) < STALE
    assert_recorded(history, daemon.data_dir)
    assert_verifies(daemon)


@pytest.mark.journey
def test_a_briefly_frozen_server_delivers_nothing_stale(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(UNBOUNDED)

    with crowd(daemon.endpoint.bus, "a", "b") as history:
        for seconds in MOMENTS_S:
            history.until_allowed()
            server = server_pid(daemon)
            freeze(server)
            time.sleep(seconds)
            thaw(server)
            history.until_allowed()

    assert max(heard.age for heard in history.allows) < STALE
    assert_recorded(history, daemon.data_dir)
