"""This machine, on which a test may install packages: all changes are in memory and then lost.

An overlay covers the root file system, in namespaces with their own mounts, processes and network.
It needs root.
"""

import os
import select
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

COMMAND_S: Final = 600.0
PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"
READY: Final = b"ready\n"
# $1: an empty folder. The last process has the overlay as its root.
_SET_UP: Final = f"""
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/changes" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/changes,workdir=$1/work" "$1/root"
cd "$1/root"
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs tmpfs tmp
mount -t tmpfs tmpfs run
chmod 1777 tmp
exec chroot . /bin/sh -c 'ip link set lo up; echo {READY.decode().strip()}; read end'
"""


class OverlaidMachine:
    def __init__(self, pid: int, changes: Path) -> None:
        self._changes = changes
        self.root = Path(f"/proc/{pid}/root")
        enter = ("--mount", "--net", "--pid", "--root", "--wdns=/")  # the first is for `added`
        self._enter = ["nsenter", f"--target={pid}", *enter]

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command as root and return its result."""
        return subprocess.run(
            self.line(*command, **variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_S,
        )

    def must(self, *command: str, **variables: str) -> str:
        """Run a command that must succeed, and return all that it printed."""
        done = self.run(*command, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def line(self, *command: str, **variables: str) -> Sequence[str]:
        given = {"PATH": PATH, "HOME": "/root", "LC_ALL": "C.UTF-8", **variables}
        words = (f"{name}={value}" for name, value in given.items())
        return [*self._enter, "env", "-i", *words, *command]

    def path(self, place: str) -> Path:
        """Return where a file of the machine can be read from outside."""
        return self.root / place.lstrip("/")

    def added(self) -> set[str]:
        """Return the paths of all files and folders that are not on the real machine."""
        line = [*self._enter[:3], "find", str(self._changes), "!", "-type", "c"]
        found = subprocess.run(line, capture_output=True, text=True, check=True, timeout=COMMAND_S)
        paths = (name.removeprefix(str(self._changes)) for name in found.stdout.splitlines())
        return {path for path in paths if path and not os.path.lexists(path)}


@contextmanager
def overlaid_machine(folder: Path) -> Iterator[OverlaidMachine]:
    """Start the machine. At the end, all its processes are killed."""
    assert os.geteuid() == 0, "these tests need root: sudo make deb-test"
    spaces = ("--mount", "--net", "--pid", "--fork", "--kill-child", "--propagation=private")
    line = ["unshare", *spaces, "/bin/sh", "-c", _SET_UP, "sh", str(folder)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert select.select([process.stdout], [], [], COMMAND_S)[0]
            assert process.stdout.readline() == READY
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            [pid] = children.read_text().split()
            yield OverlaidMachine(int(pid), folder / "changes")
        finally:
            process.kill()
