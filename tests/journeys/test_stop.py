"""Emergency stop by file and by command, also through kills."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from safetyd.agents.emergency_stop import LOOK_S
from safetyd.core.events.guard_events import Resumed, Stopped
from tests.conftest import StartDaemon
from tests.journeys.agents import UNBOUNDED, Heard, History, crowd, until
from tests.journeys.audit_record import assert_recorded, assert_verifies, events
from tests.journeys.people import control, query

FILE_S: Final = 0.3
LOOKED_AT: Final = 100


def assert_nothing_allowed_after(history: History, t: float) -> None:
    """Wait while agents get many answers to later proposals."""

    def later() -> list[Heard]:
        return [heard for heard in history.heard if history.sent[heard.id] > t]

    until(lambda: len(later()) > LOOKED_AT)

    assert not [heard for heard in later() if heard.decision.allowed]


def stopped(heard: Heard) -> bool:
    return heard.decision.cause == "stopped"


def restart_after_kill(daemon, history: History) -> float:
    daemon.kill()
    killed = time.monotonic()
    daemon.start()
    history.until(lambda heard: stopped(heard) and heard.decision.seq is not None)
    return killed


def make_file(path: Path) -> None:
    path.write_text("Stopped by: alice\nReason: drill\n")


def test_the_stop_file_is_polled_often_enough_to_stop_within_300_ms() -> None:
    assert LOOK_S < FILE_S


@pytest.mark.req("S2.24")
@pytest.mark.journey
@pytest.mark.parametrize(("make", "remove"), [(make_file, Path.unlink), (Path.mkdir, Path.rmdir)])
def test_a_stop_file_holds_through_a_kill_until_it_is_removed(
    start_daemon: StartDaemon, make: Callable[[Path], None], remove: Callable[[Path], None]
) -> None:
    daemon = start_daemon(UNBOUNDED)
    path = daemon.data_dir / "EMERGENCY_STOP"

    with crowd(daemon.endpoint.bus, "a", "b") as history:
        history.until_allowed()
        make(path)
        told = history.until(stopped)
        assert_nothing_allowed_after(history, told.t)

        killed = restart_after_kill(daemon, history)
        assert_nothing_allowed_after(history, killed)

        remove(path)
        history.until_allowed()

    kept = [event for event in events(daemon.data_dir) if isinstance(event, Stopped | Resumed)]
    assert [type(event) for event in kept] == [Stopped, Resumed]
    assert isinstance(kept[1], Resumed)
    assert kept[1].sources == (f"file:{path}",)
    assert_recorded(history, daemon.data_dir)
    assert_verifies(daemon)


@pytest.mark.journey
def test_a_stop_holds_from_its_reply_on_and_through_a_kill_of_all_processes(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(UNBOUNDED)

    with crowd(daemon.endpoint.bus, "a", "b") as history:
        history.until_allowed()
        reply = control(daemon, "stop", reason="drill")
        replied = time.monotonic()
        assert reply["ok"]
        assert reply["journalled"]
        assert_nothing_allowed_after(history, replied)

        killed = restart_after_kill(daemon, history)
        assert_nothing_allowed_after(history, killed)
        assert query(daemon, "status")["stop"]["active"]

        assert control(daemon, "resume")["cleared"] == ["operator"]
        history.until_allowed()

    assert_recorded(history, daemon.data_dir)
    assert_verifies(daemon)
