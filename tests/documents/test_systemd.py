"""The unit, judged by systemd itself, and what the daemon tells a service manager."""

import os
import queue
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.conftest import StartDaemon

SYSTEMD = ROOT / "systemd"
UNITS = ("safetyd.service", "safetyd-accounts.service", "safetyd-relay.service")
MAX_EXPOSURE = 1.5
WATCHDOG_S = 0.4
WAIT_S = 60.0


def directives(unit: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", unit.read_text(), re.MULTILINE):
        found.setdefault(key, []).append(value)
    return found


def install(name: str, directory: Path) -> Path:
    """Return a unit as it would be with this environment as /opt/safetyd."""
    unit = directory / name
    text = (SYSTEMD / name).read_text()
    unit.write_text(text.replace("/opt/safetyd/bin", str(Path(sys.executable).parent)))
    return unit


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    return install("safetyd.service", tmp_path)


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = shutil.which("systemd-analyze")
    if command is None:
        pytest.fail("systemd-analyze is missing; run: sudo apt-get install systemd")
    return subprocess.run([command, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", UNITS)
def test_systemd_accepts_the_unit(name: str, tmp_path: Path):
    verified = analyze("verify", "--man=no", str(install(name, tmp_path)))

    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")


@pytest.mark.parametrize("name", UNITS)
def test_systemd_rates_the_unit_as_safe(name: str, tmp_path: Path):
    unit = str(install(name, tmp_path))
    judged = analyze("security", "--offline=true", "--no-pager", unit)

    [exposure] = re.findall(r"Overall exposure level.*: ([0-9.]+)", judged.stdout)
    assert float(exposure) <= MAX_EXPOSURE, judged.stdout


def drop_ins() -> list[str]:
    """Return the drop-ins of the operations page that open the folder of a project."""
    page = (SYSTEMD.parent / "docs/operations.md").read_text()
    return [text for text in re.findall(r"```ini\n(.*?)```", page, re.DOTALL) if "/shop" in text]


@pytest.mark.parametrize("drop_in", drop_ins())
def test_a_documented_drop_in_opens_the_folder_of_a_project_and_nothing_else(
    installed: Path, drop_in: str
):
    folder = installed.with_suffix(".service.d")
    folder.mkdir()
    (folder / "projects.conf").write_text(drop_in)
    verified = analyze("verify", "--man=no", str(installed))

    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")
    opened = directives(folder / "projects.conf")
    [path] = opened["ReadWritePaths"]
    [home] = opened.get("ProtectHome", directives(installed)["ProtectHome"])
    # systemd makes /home inaccessible or empty, and only a bind mount brings a folder back.
    assert (home, opened.get("BindPaths")) == (
        ("tmpfs", [path]) if path.startswith("/home/") else ("yes", None)
    )


def test_the_operations_page_has_drop_ins_for_projects():
    assert len(drop_ins()) == 2


@pytest.mark.parametrize(
    ("directive", "value"),
    [
        ("Type", "notify"),
        ("NotifyAccess", "main"),
        ("WatchdogSignal", "SIGABRT"),
        ("Restart", "always"),
        ("RestartSec", "500ms"),
        ("StartLimitIntervalSec", "0"),
        ("KillMode", "mixed"),
        ("ExecReload", "/bin/kill -HUP $MAINPID"),
        ("StateDirectory", "safetyd"),
        ("LoadCredential", "safetyd.bus.nk"),
    ],
)
def test_the_unit_has_the_directives_that_the_daemon_needs(directive: str, value: str):
    assert directives(SYSTEMD / "safetyd.service")[directive] == [value]


def test_the_relays_unit_stores_nothing_and_has_no_fixed_user():
    unit = directives(SYSTEMD / "safetyd-relay.service")

    assert unit["DynamicUser"] == ["yes"]
    assert not {"StateDirectory", "ReadWritePaths", "User", "CacheDirectory"} & unit.keys()


def test_the_watchdog_waits_until_a_hung_server_is_replaced():
    [watchdog] = directives(SYSTEMD / "safetyd.service")["WatchdogSec"]

    assert float(watchdog.removesuffix("s")) >= 10


def test_the_unit_runs_as_the_sysusers_user():
    unit = directives(SYSTEMD / "safetyd.service")
    [made] = re.findall(r"^u (\w+)", (SYSTEMD / "safetyd.sysusers").read_text(), re.MULTILINE)

    assert unit["User"] == unit["Group"] == [made]


# -- what a running daemon says --------------------------------------------------------------------


class Manager:
    """The receiving end of NOTIFY_SOCKET."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._arrived: queue.Queue[tuple[float, str]] = queue.Queue()
        self.heard: list[tuple[float, str]] = []

    def listen(self) -> None:
        while message := self._socket.recv(4096).decode():
            self._arrived.put((time.monotonic(), message))

    def wait_for(self, message: str, after: float = 0.0) -> float:
        """Return when it was said, the first time that is later than `after`."""
        while True:
            self.heard.append(self._arrived.get(timeout=WAIT_S))
            when, said = self.heard[-1]
            if said == message and when > after:
                return when

    def count(self, message: str) -> int:
        return sum(said == message for _, said in self.heard)

    def between(self, message: str, begin: float, end: float) -> list[float]:
        return [when for when, said in self.heard if said == message and begin < when < end]


@contextmanager
def manager() -> Iterator[tuple[str, Manager]]:
    name = f"safetyd-{uuid.uuid4().hex}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(f"\0{name}")
        listener = Manager(sock)
        thread = threading.Thread(target=listener.listen)
        thread.start()
        try:
            yield f"@{name}", listener
        finally:
            sock.sendto(b"", f"\0{name}")
            thread.join()


@pytest.mark.journey
def test_the_watchdog_is_fed_only_while_the_bus_is_connected(start_daemon: StartDaemon):
    with manager() as (address, told):
        watchdog = {"WATCHDOG_USEC": f"{WATCHDOG_S * 1e6:.0f}"}
        daemon = start_daemon(variables={"NOTIFY_SOCKET": address, **watchdog})
        told.wait_for("READY=1")
        for _ in range(3):
            told.wait_for("WATCHDOG=1")

        server = int((daemon.data_dir / "nats/nats-server.pid").read_text())
        frozen = _freeze(server)
        ended = _wait_for_end(server)
        fed_again = told.wait_for("WATCHDOG=1", after=ended)
        daemon.stop()
        told.wait_for("STOPPING=1")

    fed = told.between("WATCHDOG=1", frozen, ended)
    assert told.between("WATCHDOG=1", 0.0, frozen) != []
    # A service manager would have ended it, had it not come back by itself.
    assert fed_again - max(fed, default=frozen) > WATCHDOG_S
    assert (told.count("READY=1"), told.count("STOPPING=1")) == (1, 1)


def _freeze(pid: int) -> float:
    os.kill(pid, signal.SIGSTOP)
    return time.monotonic()


def _wait_for_end(pid: int) -> float:
    descriptor = os.pidfd_open(pid)
    try:
        ready, _, _ = select.select([descriptor], [], [], WAIT_S)
    finally:
        os.close(descriptor)
    assert ready, "the frozen server was not ended"
    return time.monotonic()


# -- the page for operators ------------------------------------------------------------------------


def test_every_file_that_operations_installs_exists():
    page = (SYSTEMD.parent / "docs/operations.md").read_text()
    shipped = set(re.findall(r"(?<=[ `])(?:config|systemd)/[\w.-]+", page))

    assert {name for name in shipped if not (SYSTEMD.parent / name).exists()} == set()
