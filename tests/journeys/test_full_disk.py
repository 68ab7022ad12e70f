"""The data disk fills up and gets free space again."""

import os
import select
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import pytest

from safetyd.agents.stop_reserve import StopReserve
from safetyd.client import SyncSafety
from safetyd.journal.audit import files, verify
from tests.conftest import LAST_WORD, READY_S, WEB, RunningDaemon, environment, safetyd
from tests.journeys.agents import PATIENCE_S, UNBOUNDED, Heard, History, crowd, until
from tests.journeys.asking_agent import Asker
from tests.journeys.audit_record import assert_recorded, assert_verifies
from tests.journeys.delivery_targets import Targets
from tests.journeys.people import Listener, control, query
from tests.journeys.processes import gone, server_pid

IN_NAMESPACE: Final = "TESTS_IN_NAMESPACE"
SIZE: Final = "48m"
MIB: Final = 1024**2
# Non-urgent messages wait.
ALWAYS_NIGHT: Final = """
[notifications]
quiet_start = "00:00"
quiet_end = "23:59"
"""
FILES: Final = 500
LOOKED_AT_S: Final = 1.0
WATCHDOG_S: Final = 1.0
ENOUGH_KIB: Final = 1100


@pytest.fixture
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path | None]:
    """A directory whose `data` is a small file system of its own.

    Yield None if this user cannot mount; the test has then already run in a user namespace.
    """
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    options = f"size={SIZE},nr_inodes={FILES},mode=700"
    mount = ["mount", "-t", "tmpfs", "-o", options, "none", str(data)]
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
    """Leave no free block."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))
    assert shutil.disk_usage(path).free == 0


def fill_with_files(directory: Path) -> None:
    """Leave no free inode."""
    directory.mkdir()
    with suppress(OSError):
        for number in range(FILES):
            (directory / str(number)).touch()
    assert os.statvfs(directory).f_ffree == 0


def make_room(daemon: RunningDaemon) -> None:
    (daemon.data_dir / "filler").unlink()
    shutil.rmtree(daemon.data_dir / "files", ignore_errors=True)


class Watchdog:
    """A stand-in for systemd's notification socket."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self.variables = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": f"{WATCHDOG_S * 1e6:.0f}"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def forget(self) -> None:
        """Discard everything received so far."""
        with suppress(BlockingIOError):
            while self._socket.recv(64, socket.MSG_DONTWAIT):
                pass

    def hears(self) -> bool:
        ready, _, _ = select.select([self._socket], [], [], PATIENCE_S)
        return bool(ready) and self._socket.recv(64) == b"WATCHDOG=1"


class Start(NamedTuple):
    """The result of a start."""

    ready: bool
    code: int
    said: str


@contextmanager
def running(directory: Path, variables: Mapping[str, str]) -> Iterator[RunningDaemon]:
    daemon = RunningDaemon(directory, UNBOUNDED, variables)
    try:
        yield daemon
    finally:
        daemon.stop()


def unwritable(heard: Heard) -> bool:
    """Return whether the disk, and not a busy machine, made the start fail."""
    decision = heard.decision
    why = ("the journal has not answered", "cannot write the audit file")
    return decision.cause == "unavailable" and decision.reason.startswith(why)


def stopped(heard: Heard) -> bool:
    return heard.decision.cause == "stopped"


def recorded(heard: Heard) -> bool:
    return heard.decision.seq is not None


def assert_disk_is_told_of(daemon: RunningDaemon) -> None:
    """Assert that health still answers and names the disk."""
    answer = query(daemon, "health")
    checks = {check["name"]: check for check in answer["checks"]}
    states = {name: checks[name]["state"] for name in ("daemon", "journal", "disk", "bus")}
    assert states == {"daemon": "bad", "journal": "bad", "disk": "bad", "bus": "good"}
    full = f"the disk at {daemon.data_dir} is 100 % full: 0 B of 48.0 MiB is free"
    assert checks["disk"]["says"].startswith(full)


def survive(daemon: RunningDaemon, watchdog: Watchdog) -> History:
    """Fill the disk, stop, free space and resume; return what the agents received."""
    filler = daemon.data_dir / "filler"
    with crowd(daemon.endpoint.bus, "a", "b") as history:
        history.until_allowed()
        fill(filler)
        closed = history.until(unwritable)
        history.until(lambda h: h.t > closed.t + LOOKED_AT_S)
        assert not [heard for heard in history.allows if heard.t > closed.t]
        assert_disk_is_told_of(daemon)

        reply = control(daemon, "stop", reason="drill")
        assert reply["ok"]
        assert reply["journalled"], "it is kept where there is room for it"
        history.until(stopped)
        watchdog.forget()
        assert watchdog.hears(), "a restart now would forget the stop"

        filler.unlink()
        freed = time.monotonic()
        back = history.until(lambda h: recorded(h) and history.sent[h.id] > freed)
        print(f"recovered after {back.t - freed:.2f} s")
        assert not [heard for heard in history.allows if heard.t > closed.t]
        assert query(daemon, "status")["stop"]["active"]

        assert control(daemon, "resume")["cleared"] == ["operator"]
        history.until_allowed()
    return history


@pytest.mark.journey
def test_on_a_full_disk_nothing_is_allowed_stop_works_and_the_daemon_recovers(
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


def start_with(filler: Path, free_kib: int) -> Start:
    """Start a daemon with this much free space, and end it once it is ready."""
    fill(filler)
    os.truncate(filler, filler.stat().st_size - free_kib * 1024)
    return start(filler.parent)


def start(data: Path) -> Start:
    config = data.with_name("safetyd.toml")
    config.write_text(WEB)
    command = [sys.executable, "-m", "safetyd", "run", "--config", str(config)]
    with subprocess.Popen(
        [*command, "--data-dir", str(data)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        end = time.monotonic() + READY_S
        out = b""
        while LAST_WORD not in out:
            patience_s = end - time.monotonic()
            assert select.select([process.stdout], [], [], patience_s)[0], "neither ready nor over"
            if not (chunk := os.read(process.stdout.fileno(), 4096)):
                break
            out += chunk
        process.terminate()
        return Start(LAST_WORD in out, process.wait(), process.stderr.read().decode())


def assert_refused(start: Start, filler: Path, free: str) -> None:
    data = filler.parent
    assert (start.ready, start.code) == (False, 1), start
    (line,) = start.said.splitlines()
    assert line.startswith(f"safetyd: the disk at {data} "), line
    assert f" {free}" in line
    assert line.endswith("free up space and start again")


def leave(filler: Path, free_mib: int) -> None:
    """Leave about this much free space."""
    filler.unlink(missing_ok=True)
    room = shutil.disk_usage(filler.parent).free - free_mib * MIB
    with filler.open("wb") as file:
        file.write(bytes(room))


def metrics(daemon: RunningDaemon) -> str:
    with urllib.request.urlopen(f"{daemon.endpoint.web}/metrics") as page:
        return str(page.read().decode())


def assert_told_of(daemon: RunningDaemon, title: str, level: int) -> None:
    """Assert that status and metrics report it too."""
    said = daemon.safetyd("status").stdout.splitlines()
    assert said[0].startswith(f"{title}: the disk at {daemon.data_dir} is "), said
    assert said[1].startswith("  safetyd has "), said
    # Metrics are built at most once a second.
    until(lambda: f"\nsafetyd_disk_level {level}.0\n" in metrics(daemon))
    assert '\nsafetyd_data_bytes{part="journal"} ' in metrics(daemon)


@pytest.mark.journey
def test_a_filling_disk_raises_an_alert_before_and_when_it_is_full(
    small_disk: Path | None, everywhere: Targets
) -> None:
    if small_disk is None:
        return
    config = f"{ALWAYS_NIGHT}{everywhere.configure(small_disk)}{UNBOUNDED}"
    daemon = RunningDaemon(small_disk, config)
    filler = daemon.data_dir / "filler"
    try:
        with Listener(daemon) as person:
            leave(filler, 9)
            assert "audit" in person.hear("DISK_FILLING", None)["reason"]
            assert_told_of(daemon, "DISK FILLING", 1)

            leave(filler, 3)
            assert person.hear("DISK_NEARLY_FULL", None)["metadata"]["percent"] > 90
            assert_told_of(daemon, "DISK NEARLY FULL", 2)
            (first, *_) = everywhere.wait("webhook", 1)
            assert f"DISK NEARLY FULL: the disk at {daemon.data_dir} is 9" in first.words
            assert "make room on it" in first.words

            with crowd(daemon.endpoint.bus, "a") as history:
                history.until_allowed()
                fill(filler)
                history.until(unwritable)
                until(lambda: "is 100 % full" in daemon.safetyd("status").stderr)
                doctor = daemon.safetyd("doctor")
                assert doctor.returncode == 1
                assert f"wrong  disk           the disk at {daemon.data_dir} is" in doctor.stdout

                # A server that owes an answer is restarted, so no one listens meanwhile.
                filler.unlink()
                until(lambda: "DISK_HAS_ROOM" in daemon.log())
                history.until_allowed()
    finally:
        daemon.stop()


SHOP: Final = """
profile = "coding"
[projects.shop]
root = "{root}"
agents = ["coder"]
history = "shadow"
"""


def change(daemon: RunningDaemon, id_: str, *files: Path) -> None:
    """Let an agent report that it wrote files in its project."""
    with Asker(daemon, "coder") as agent:
        action = {"type": "edit_file", "paths": [str(files[0])], "text": "x", "id": id_}
        decision = agent.ask("propose", action)
        assert decision["decision"] == "allow", decision
        for file in files:
            file.write_bytes(os.urandom(64 * MIB) if file.name == "large.bin" else id_.encode())
        agent.ask("telemetry", {"type": "outcome", "id": id_, "ok": True})


def commit_of(daemon: RunningDaemon, id_: str) -> dict[str, Any]:
    def found() -> list[dict[str, Any]]:
        rows = query(daemon, "commits", project="shop")["commits"]
        return [row for row in rows if row["id"] == id_]

    until(lambda: bool(found()))
    return found()[0]


@pytest.mark.journey
def test_a_file_larger_than_the_disk_is_not_committed_and_blocks_nothing(
    small_disk: Path | None,
) -> None:
    if small_disk is None:
        return
    root = small_disk / "shop"
    root.mkdir()
    code, large = root / "cart.py", root / "large.bin"
    daemon = RunningDaemon(small_disk, SHOP.format(root=root))
    try:
        change(daemon, "p1", code)
        first = commit_of(daemon, "p1")["commit"]
        change(daemon, "p2", code, large)
        change(daemon, "p3", code)  # decisions go on

        commit = commit_of(daemon, "p2")
        assert commit["left_out"].startswith("1 file: large.bin (64.0 MiB): only ")
        assert commit["files"] == 1
        assert "1 file: large.bin" in daemon.safetyd("history").stdout
        assert shutil.disk_usage(daemon.data_dir).free > 4.8 * MIB, "the reserve"
        daemon.restart()

        back = daemon.safetyd("rollback", first, "--soft", "--reason", "too large")
        assert code.read_bytes() == b"p1"
        assert "\n  large.bin (64.0 MiB): " in back.stdout
        assert large.stat().st_size == 64 * MIB
        change(daemon, "p4", code)
        assert_verifies(daemon)
    finally:
        daemon.stop()


def change_on_a_full_disk(daemon: RunningDaemon, id_: str, file: Path) -> None:
    leave(daemon.data_dir / "filler", 3)
    with Listener(daemon) as person:
        change(daemon, id_, file)
        person.hear("COMMIT_FAILED", "coder")
    assert "NOT COMMITTED: project shop: " in daemon.safetyd("status").stdout


def authors(daemon: RunningDaemon) -> list[tuple[str, str, int]]:
    rows = query(daemon, "commits", project="shop")["commits"]
    return [(row["author"], row["id"], row["files"]) for row in rows]


@pytest.mark.journey
def test_an_edit_missed_on_a_full_disk_is_committed_later_for_its_agent(
    small_disk: Path | None,
) -> None:
    if small_disk is None:
        return
    root = small_disk / "shop"
    root.mkdir()
    cart, tax = root / "cart.py", root / "tax.py"
    daemon = RunningDaemon(small_disk, SHOP.format(root=root))
    filler = daemon.data_dir / "filler"
    try:
        change(daemon, "p1", cart)
        commit_of(daemon, "p1")
        change_on_a_full_disk(daemon, "p2", cart)
        filler.unlink()
        change(daemon, "p3", tax)
        commit_of(daemon, "p3")
        assert authors(daemon) == [("agent", "p3", 1), ("agent", "p2", 1), ("agent", "p1", 1)]

        change_on_a_full_disk(daemon, "p4", cart)
        (root / "notes").write_text("of a human")
        filler.unlink()
        until(lambda: "NOT COMMITTED" not in daemon.safetyd("status").stdout)
        assert authors(daemon)[0] == ("agent", "p4", 1), "without an action"
        change(daemon, "p5", tax)
        commit_of(daemon, "p5")
        assert authors(daemon)[:2] == [("agent", "p5", 1), ("human", "", 1)]

        change_on_a_full_disk(daemon, "p6", cart)
        daemon.kill()
        filler.unlink()
        daemon.start()
        assert commit_of(daemon, "p6")["author"] == "agent", "a restart does not forget it"
    finally:
        daemon.stop()


@pytest.mark.journey
def test_closed_audit_files_can_be_moved_away_while_the_daemon_runs(tmp_path: Path) -> None:
    daemon = RunningDaemon(tmp_path, f"{UNBOUNDED}[audit]\nmax_bytes = 4096\n")
    audit = daemon.data_dir / "audit"
    try:
        with SyncSafety("code", url=daemon.endpoint.bus) as safety:
            while len(files(audit)) < 4:
                assert safety.propose("read_file").allowed
            for path in files(audit)[:-1]:
                path.rename(tmp_path / path.name)
            assert safety.propose("read_file").allowed
        daemon.restart()
        with SyncSafety("code", url=daemon.endpoint.bus) as safety:
            assert safety.propose("read_file").allowed

        verified = daemon.safetyd("audit", "verify")

        assert verified.returncode == 0, verified.stderr
        first = verify(audit).first_seq
        assert first > 1
        assert f"event {first}" in verified.stdout
    finally:
        daemon.stop()


@pytest.mark.journey
def test_a_start_with_little_space_succeeds_or_names_the_full_disk(
    small_disk: Path | None,
) -> None:
    if small_disk is None:
        return
    data = small_disk / "data"
    filler = data / "filler"
    for free_kib in (0, 36, 52, 256):
        assert_refused(start_with(filler, free_kib), filler, f"{free_kib} KiB free")

    assert start_with(filler, ENOUGH_KIB).ready
    for free_kib in (256, 8):
        assert_refused(start_with(filler, free_kib), filler, f"{free_kib} KiB free")
    assert start_with(filler, ENOUGH_KIB).ready

    filler.unlink()
    fill_with_files(data / "files")
    assert_refused(start(data), filler, "room for 0 more files")


@pytest.mark.journey
def test_stop_without_a_daemon_works_on_a_disk_without_free_blocks_or_inodes(
    small_disk: Path | None,
) -> None:
    if small_disk is None:
        return
    data = small_disk / "data"
    StopReserve(data).prepare()
    fill(data / "filler")
    fill_with_files(data / "files")

    said = safetyd("stop", "drill", "--data-dir", str(data))

    assert said.returncode == 4
    assert f"Created the stop file {data / 'EMERGENCY_STOP'} without a reason" in said.stdout
    assert (data / "EMERGENCY_STOP").exists()


def kill_both(daemon: RunningDaemon) -> None:
    """Kill the daemon and its server, as a power cut would."""
    server = server_pid(daemon)
    daemon.kill()
    until(lambda: gone(server))


def stop_on_a_full_disk(daemon: RunningDaemon, *, agent: str | None, files_too: bool) -> None:
    with crowd(daemon.endpoint.bus, "a") as history:
        history.until_allowed()
        fill(daemon.data_dir / "filler")
        if files_too:
            fill_with_files(daemon.data_dir / "files")
        history.until(unwritable)

        assert control(daemon, "stop", reason="drill", agent=agent)["journalled"]
    kill_both(daemon)


def assert_stopped_until_resumed(daemon: RunningDaemon, agent: str | None) -> None:
    (stop,) = query(daemon, "status")["stop"]["stops"]
    assert (stop["by"], stop["reason"], stop["agent"]) == ("local", "drill", agent)
    with crowd(daemon.endpoint.bus, "a") as history:
        history.until(lambda heard: stopped(heard) and recorded(heard))
        assert not history.allows
        assert control(daemon, "resume", agent=agent)["cleared"] == ["operator"]
        history.until_allowed()


@pytest.mark.journey
def test_a_stop_on_a_full_disk_survives_a_kill_of_all_processes(
    small_disk: Path | None,
) -> None:
    if small_disk is None:
        return
    with running(small_disk, {}) as daemon:
        stop_on_a_full_disk(daemon, agent=None, files_too=False)
        make_room(daemon)
        daemon.start()
        assert_stopped_until_resumed(daemon, agent=None)

        stop_on_a_full_disk(daemon, agent="a", files_too=True)
        refused = daemon.safetyd("run", "--config", str(daemon.config_path))
        assert refused.returncode == 1
        make_room(daemon)
        daemon.start()
        assert_stopped_until_resumed(daemon, agent="a")

        kill_both(daemon)
        daemon.start()
        assert not query(daemon, "status")["stop"]["stops"]
