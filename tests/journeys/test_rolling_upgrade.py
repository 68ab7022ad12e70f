"""Daemons of two versions work together while one after the other is upgraded."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.agents import Agent, History, until
from tests.journeys.audit_record import assert_verifies
from tests.journeys.test_second_daemon import Shared, assert_answered_once, stands_by

NEXT = {"PYTHONPATH": str(Path(__file__).parent / "next_version")}


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    shared = Shared(tmp_path)
    yield shared
    shared.bus.stop()


def record(daemon: RunningDaemon) -> bytes:
    """Return all audit files. The later version's cannot be decoded here."""
    return b"".join(path.read_bytes() for path in (daemon.data_dir / "audit").glob("*.jsonl"))


def knows_kettles(daemon: RunningDaemon) -> bool:
    return b"kettle_boiled" in record(daemon)


def upgraded(daemon: RunningDaemon, config: str) -> RunningDaemon:
    return RunningDaemon(daemon.directory, config, NEXT)


@pytest.mark.journey
def test_a_standby_of_the_next_version_takes_over_and_an_older_one_waits(
    start_daemon: StartDaemon, shared: Shared
) -> None:
    a = start_daemon(shared.config)
    b = start_daemon(shared.config, NEXT)
    agent = Agent("code", shared.bus.url, history := History(), shared.agent)

    with agent.at_work():
        history.until_allowed()
        assert (stands_by(a), stands_by(b)) == (False, True)

        a.stop()
        history.until_allowed()
        until(lambda: knows_kettles(b))

        a.start()
        until(lambda: "kettle_boiled" in a.log())
        b.kill()
        killed = time.monotonic()
        time.sleep(4.0)  # twice the time after which a standby takes over
        assert not [heard for heard in history.allows if history.sent[heard.id] > killed]
        assert stands_by(a)
        a.stop()

        a = upgraded(a, shared.config)
        history.until_allowed()

    assert_answered_once(history)
    everything = record(a)
    assert not [h.id for h in history.allows if b'"id":"%b"' % h.id.encode() not in everything]
    assert_verifies(a)
    assert knows_kettles(a)
    a.stop()
