import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import nats
import pytest

from safetyd.client import SyncSafety
from tests.client.bus import Bus
from tests.conftest import RunningDaemon, StartDaemon, environment, safetyd

SEED = "SUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU\n"
OURS = re.compile(r"Stopped by: local\nTime: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\nReason: fire drill\n")


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> RunningDaemon:
    return start_daemon()


@pytest.fixture
def listener(daemon: RunningDaemon) -> Iterator[SyncSafety]:
    """An agent that is heard, and acknowledges a stop by itself."""
    with SyncSafety("listener", data_dir=daemon.data_dir) as safety:
        assert safety.propose("read_file").allowed
        yield safety


def stop_file(daemon: RunningDaemon) -> Path:
    return daemon.data_dir / "EMERGENCY_STOP"


def stops(daemon: RunningDaemon) -> list[dict[str, Any]]:
    status = json.loads(daemon.safetyd("status", "--json").stdout)
    found: list[dict[str, Any]] = status["stop"]["stops"]
    return found


def test_a_stop_that_everybody_acknowledges_says_so_and_resume_ends_it(daemon, listener):
    said = daemon.safetyd("stop", "fire\ndrill")

    assert said.returncode == 0
    assert OURS.fullmatch(stop_file(daemon).read_text())
    assert re.search(r"acknowledged by +listener", said.stdout)
    assert re.search(r"allowed and not yet reported +listener 1", said.stdout)
    assert said.stdout.endswith("All autonomous operations halted\n")
    assert listener.propose("read_file").cause == "stopped"
    assert {stop["source"].partition(":")[0] for stop in stops(daemon)} == {"operator", "file"}

    resumed = daemon.safetyd("resume")

    assert (resumed.returncode, resumed.stdout) == (0, "Work may go on.\n")
    assert not stop_file(daemon).exists()
    assert listener.propose("read_file").allowed


def test_a_silent_agent_is_named_and_nothing_is_claimed(daemon):
    daemon.safetyd("check", "gone", "read_file")

    said = daemon.safetyd("stop")

    assert said.returncode == 1
    assert re.search(r"silent +gone", said.stdout)
    assert "All autonomous operations halted" not in said.stdout


def test_the_operators_commands_run_and_a_failing_one_is_told(start_daemon: StartDaemon):
    daemon = start_daemon('[stop]\ncommands = ["echo cancelled", "exit 3"]\n')

    said = daemon.safetyd("stop")

    assert said.returncode == 1
    assert "cancelled\necho cancelled: exit code 0\nexit 3: exit code 3\n" in said.stdout
    assert "All autonomous operations halted" not in said.stdout


def test_the_first_configured_file_is_written(start_daemon: StartDaemon):
    daemon = start_daemon('[stop]\nfiles = ["HALT", "EMERGENCY_STOP"]\n')

    daemon.safetyd("stop", "fire drill")

    assert OURS.fullmatch((daemon.data_dir / "HALT").read_text())
    assert not stop_file(daemon).exists()


def test_a_stop_of_one_agent_writes_no_file_and_leaves_others_alone(daemon, listener):
    said = daemon.safetyd("stop", "--agent", "listener")

    assert (said.returncode, said.stdout.splitlines()[-1]) == (0, "listener is halted")
    assert not stop_file(daemon).exists()
    assert not listener.propose("read_file").allowed
    assert daemon.safetyd("check", "other", "read_file").returncode == 0

    assert daemon.safetyd("resume", "--agent", "listener").returncode == 0
    assert listener.propose("read_file").allowed


def test_an_agent_is_not_said_to_go_on_while_everything_is_stopped(daemon):
    daemon.safetyd("stop")

    said = daemon.safetyd("resume", "--agent", "code")

    assert said.returncode == 1
    assert "Still stopped: everything" in said.stdout


def test_without_a_daemon_the_file_is_written_and_holds_from_the_start(daemon):
    daemon.stop()

    said = daemon.safetyd("stop", "fire drill")

    assert said.returncode == 4
    assert "hold from the start" in said.stdout
    assert OURS.fullmatch(stop_file(daemon).read_text())
    daemon.start()
    assert daemon.safetyd("check", "code", "read_file").stdout.startswith("BLOCKED: emergency stop")
    assert daemon.safetyd("resume").returncode == 0


def test_before_the_first_start_the_file_is_written_too(tmp_path):
    said = safetyd("stop", SAFETYD_DATA_DIR=str(tmp_path / "data"))

    assert said.returncode == 4
    assert (tmp_path / "data/EMERGENCY_STOP").exists()
    assert (tmp_path / "data").stat().st_mode & 0o077 == 0


def test_one_who_may_not_stop_by_command_still_stops_by_file(daemon):
    daemon.safetyd("operator", "add", "olga", "--observer")

    said = daemon.safetyd("stop", "--operator", "olga")

    assert said.returncode == 1
    assert "does not let olga" in said.stderr
    assert stop_file(daemon).read_text().startswith("Stopped by: olga\n")


def test_somebody_elses_file_is_shown_and_left_without_a_terminal(daemon):
    stop_file(daemon).write_text("hands off\x1b[2J\n")

    said = daemon.safetyd("resume")

    assert said.returncode == 1
    assert "  hands off\\x1b[2J\n" in said.stdout
    assert "no --yes" in said.stdout
    assert stop_file(daemon).exists()


def test_yes_deletes_somebody_elses_file(daemon):
    stop_file(daemon).write_text("hands off\n")

    assert daemon.safetyd("resume", "--yes").returncode == 0
    assert not stop_file(daemon).exists()


@pytest.mark.parametrize(("answer", "exit_code"), [("y\n", 0), ("n\n", 1)])
def test_at_a_terminal_somebody_elses_file_is_asked_about(daemon, answer, exit_code):
    stop_file(daemon).write_text("hands off\n")
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())

    said = subprocess.run(
        [sys.executable, "-m", "safetyd", "resume"],
        stdin=theirs,
        capture_output=True,
        text=True,
        check=False,
        env=environment(SAFETYD_DATA_DIR=str(daemon.data_dir)),
    )

    os.close(ours)
    os.close(theirs)
    assert "Delete it?" in said.stdout
    assert (said.returncode, stop_file(daemon).exists()) == (exit_code, exit_code == 1)


def test_a_stop_file_that_cannot_be_deleted_keeps_the_stop_and_is_named(daemon):
    stop_file(daemon).mkdir()

    said = daemon.safetyd("resume", "--yes")

    assert said.returncode == 1
    assert f"{stop_file(daemon)} cannot be deleted" in said.stdout
    assert "Still stopped: everything" in said.stdout


def test_a_stop_leaves_what_somebody_else_wrote(daemon):
    stop_file(daemon).write_text("hands off\n")

    daemon.safetyd("stop")

    assert stop_file(daemon).read_text() == "hands off\n"


@pytest.fixture
async def stalled(tmp_path: Path) -> AsyncIterator[str]:
    """A bus on which a stop is taken but nothing can be written down or asked."""
    bus = Bus(tmp_path)
    client = await nats.connect(bus.url)

    async def taken(message: Any) -> None:
        await message.respond(b'{"ok":true,"epoch":1,"journalled":false}')

    async def unanswered(_message: Any) -> None: ...

    await client.subscribe("safety.v1.control.*", cb=taken)
    await client.subscribe("safety.v1.query.*", cb=unanswered)
    await client.flush()
    yield bus.url
    await client.close()
    bus.stop()


async def test_a_stop_that_is_not_yet_written_down_says_so(stalled, tmp_path):
    data_dir = tmp_path / "data"
    (data_dir / "keys").mkdir(parents=True)
    (data_dir / "keys/operator.nk").write_text(SEED)

    said = await anyio.to_thread.run_sync(
        lambda: safetyd("stop", "--url", stalled, SAFETYD_DATA_DIR=str(data_dir))
    )

    assert said.returncode == 1
    assert "not yet written down" in said.stdout
    assert "does not say who has acknowledged" in said.stdout
    assert (data_dir / "EMERGENCY_STOP").exists()
