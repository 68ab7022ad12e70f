"""Inspect and signal the processes of a running daemon."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.conftest import RunningDaemon
from tests.journeys.agents import until


def server_pid(daemon: RunningDaemon) -> int:
    return int((daemon.data_dir / "nats" / "nats-server.pid").read_text())


def state(pid: int) -> str:
    """Return the kernel's state letter of a process, or nothing once it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def gone(pid: int) -> bool:
    return state(pid) in {"", "Z"}


def kill(pid: int) -> None:
    """Kill a process and wait until it is dead."""
    os.kill(pid, signal.SIGKILL)
    until(lambda: gone(pid))


def freeze(pid: int) -> None:
    """Freeze a process and wait until it has stopped."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state(pid) == "T")


def thaw(pid: int) -> None:
    """Resume a frozen process, unless it has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
