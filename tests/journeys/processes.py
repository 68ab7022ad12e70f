"""The processes of a running daemon, seen and signalled from outside."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.conftest import RunningDaemon
from tests.journeys.agents import until


def server_pid(daemon: RunningDaemon) -> int:
    return int((daemon.data_dir / "nats" / "nats-server.pid").read_text())


def state(pid: int) -> str:
    """Return the kernel's letter for it, Z or nothing once it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def gone(pid: int) -> bool:
    return state(pid) in {"", "Z"}


def kill(pid: int) -> None:
    """Return once it is dead."""
    os.kill(pid, signal.SIGKILL)
    until(lambda: gone(pid))


def freeze(pid: int) -> None:
    """Return once it stands still."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state(pid) == "T")


def thaw(pid: int) -> None:
    """Let it go on, unless somebody has ended it meanwhile."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
