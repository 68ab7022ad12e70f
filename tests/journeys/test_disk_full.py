"""The disk that holds everything fills up, and is given room again."""

import os
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

import pytest

from tests.conftest import RunningDaemon, safetyd
from tests.journeys.agents import UNBOUNDED, Heard, History, crowd
from tests.journeys.people import control, query
from tests.journeys.record import assert_recorded, assert_verifies

IN_NAMESPACE: Final = "TESTS_IN_NAMESPACE"
SIZE: Final = "48m"
NOTICED_S: Final = 5.0
LOOKED_AT_S: Final = 1.0
WATCHDOG_S: Final = 1.0
RECOVERS_S: Final = 20.0


@pytest.fixture
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path | None]:
    """A directory whose `data` is a file system of its own, with little room.

    Who may not mount one gets None, after the test has passed in a namespace where everybody may.
    """
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=700", "none", str(data)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode == 0:
        yield tmp_path
        subprocess.run(["umount", str(data)], check=True)
    else:
        assert IN_NAMESPACE not in os.environ, mounted.stderr
        run_in_namespace(request)
        yield None


def run_in_namespace(request: pytest.FixtureRequest) -> None:
    command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-m", "pytest"]
    passed = subprocess.run(
        [*command, "-p", "no:cacheprovider", request.node.nodeid],
        cwd=request.config.rootpath,
        env={**os.environ, IN_NAMESPACE: "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert passed.returncode == 0, f"nothing can be mounted here: {passed.stdout}{passed.stderr}"


def fill(path: Path) -> None:
    """Leave not one block free."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))
    assert shutil.disk_usage(path).free == 0


class Watchdog:
    """What a service manager hears: it would restart a daemon that has nothing to say."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self.variables = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": f"{WATCHDOG_S * 1e6:.0f}"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def forget(self) -> None:
        """Pass over what was said up to now."""
        with suppress(BlockingIOError):
            while self._socket.recv(64, socket.MSG_DONTWAIT):
                pass

    def hears(self) -> bool:
        ready, _, _ = select.select([self._socket], [], [], WATCHDOG_S)
        return bool(ready) and self._socket.recv(64) == b"WATCHDOG=1"


@contextmanager
def running(directory: Path, variables: Mapping[str, str]) -> Iterator[RunningDaemon]:
    daemon = RunningDaemon(directory, UNBOUNDED, variables)
    try:
        yield daemon
    finally:
        daemon.stop()


def unwritable(heard: Heard) -> bool:
    """Say whether it was refused because of the disk, not because the machine is busy."""
    decision = heard.decision
    why = ("the journal has not answered", "the audit file cannot be written")
    return decision.cause == "unavailable" and decision.reason.startswith(why)


def stopped(heard: Heard) -> bool:
    return heard.decision.cause == "stopped"


def recorded(heard: Heard) -> bool:
    return heard.decision.seq is not None


def survive(daemon: RunningDaemon, watchdog: Watchdog) -> History:
    """Fill the disk, stop, give it room and resume; return what agents lived through."""
    filler = daemon.data_dir / "filler"
    with crowd(daemon.endpoint.bus, "a", "b") as history:
        history.until_allowed()
        fill(filler)
        closed = history.until(unwritable, NOTICED_S)
        history.until(lambda h: h.t > closed.t + LOOKED_AT_S)
        assert not [heard for heard in history.allows if heard.t > closed.t]

        reply = control(daemon, "stop", reason="drill")
        assert reply["ok"]
        assert not reply["journalled"]
        history.until(stopped)
        watchdog.forget()
        assert watchdog.hears(), "a restart now would forget the stop"

        filler.unlink()
        freed = time.monotonic()
        back = history.until(lambda h: recorded(h) and history.sent[h.id] > freed, RECOVERS_S)
        print(f"recovered after {back.t - freed:.2f} s")
        assert not [heard for heard in history.allows if heard.t > closed.t]
        assert query(daemon, "status")["stop"]["active"]

        assert control(daemon, "resume")["cleared"] == ["operator"]
        history.until_allowed()
    return history


@pytest.mark.journey
def test_full_disk_allows_nothing_and_can_be_stopped_and_recovers_by_itself(
    small_disk: Path | None,
) -> None:
    if small_disk is None:
        return
    with (
        Watchdog(small_disk / "notify") as watchdog,
        running(small_disk, watchdog.variables) as daemon,
    ):
        history = survive(daemon, watchdog)

        assert_recorded(history, daemon.data_dir)
        assert_verifies(daemon)


@pytest.mark.journey
def test_daemon_does_not_start_on_a_full_disk_and_says_why(small_disk: Path | None) -> None:
    if small_disk is None:
        return
    filler = small_disk / "data" / "filler"
    fill(filler)

    refused = safetyd("run", "--data-dir", str(small_disk / "data"))
    assert refused.returncode == 1
    assert "No space left on device" in refused.stderr
    assert "Traceback" not in refused.stderr

    filler.unlink()
    with running(small_disk, {}) as daemon, crowd(daemon.endpoint.bus, "a") as history:
        history.until_allowed()
