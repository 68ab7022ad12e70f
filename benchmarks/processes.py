"""Start, watch and end child processes by their ids."""

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, sleep

ROOT = Path(__file__).parent.parent
PATIENCE_S = 60.0


class Unmeasured(Exception):
    """A value could not be measured; the message says why."""


def spawn(log: Path, *command: str) -> subprocess.Popen[bytes]:
    """Start a process that writes to `log`."""
    with log.open("ab") as output:
        return subprocess.Popen(command, stdout=output, stderr=output, cwd=ROOT)


def call(*command: str, given: bytes = b"", patience_s: float = PATIENCE_S) -> bytes:
    """Run a command and return its output."""
    name = " ".join((Path(command[0]).name, *command[1:]))
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, cwd=ROOT, check=False, timeout=patience_s
        )
    except subprocess.TimeoutExpired:
        raise Unmeasured(f"{name} took more than {patience_s:g} s") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise Unmeasured(f"{name} failed: {said[-1] if said else done.returncode}")
    return done.stdout


def until(claim: Callable[[], bool], patience_s: float, otherwise: Callable[[], str]) -> None:
    """Wait until `claim` holds."""
    deadline = perf_counter() + patience_s
    while not claim():
        if perf_counter() > deadline:
            raise Unmeasured(otherwise())
        sleep(0.005)


def tail(log: Path) -> str:
    return log.read_text(errors="replace").strip()[-600:] if log.exists() else ""


def end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process, and kill it if it does not end."""
    process.terminate()
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def family(pid: int) -> list[int]:
    """Return a running process and its children."""
    listed = Path(f"/proc/{pid}/task").glob("*/children")
    return [pid, *(int(child) for task in listed for child in task.read_text().split())]


def cut_off(pids: list[int], mark: str) -> None:
    """Kill processes with `mark` in their command line."""
    for pid in pids:
        if _runs(pid, mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def gone(pids: list[int], mark: str) -> bool:
    return not any(_runs(pid, mark) for pid in pids)


def _runs(pid: int, mark: str) -> bool:
    try:
        return mark in Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def cpu_s(pid: int) -> float:
    """Return the seconds of processor time that a process has used."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True
