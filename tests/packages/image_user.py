"""Runs commands as a container engine would: as the image's user, with a read-only root.

As root, a command runs with the image's uid and in a mount namespace in which only the given
directories are writable. Without root, it runs as the current user.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

from tests.conftest import COMMAND_S

# Mount each writable directory on itself, so that the read-only mount below does not cover it.
_READ_ONLY: Final = """
while [ "$1" != -- ]; do mount --bind "$1" "$1"; shift; done
shift
mount -o remount,bind,ro /
exec "$@"
"""
_NAMESPACE: Final = ("unshare", "--mount", "--propagation", "private")


class ImageUser:
    """A user with an environment, and the directories that it may write to."""

    def __init__(self, uid: int, variables: Mapping[str, str], writable: Sequence[Path]) -> None:
        self.uid = uid if os.geteuid() == 0 else os.geteuid()
        self._variables = dict(variables)
        self._writable = writable
        for directory in writable:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.chown(directory, self.uid, self.uid if os.geteuid() == 0 else -1)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._prefix(), *command],
            cwd=self._writable[0],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_S,
            env=self._variables,
        )

    def start(self, command: Sequence[str], log: IO[Any]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*self._prefix(), *command],
            cwd=self._writable[0],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=self._variables,
        )

    def _prefix(self) -> list[str]:
        if os.geteuid() != 0:
            return []
        # This Python may be in a directory that only root can enter.
        reads = [f"--{which}-caps=-all,+dac_read_search" for which in ("inh", "ambient")]
        user = ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"]
        user += [*reads, "--no-new-privs"]
        if not can_mount():
            return user
        writable = map(str, self._writable)
        return [*_NAMESPACE, "sh", "-ec", _READ_ONLY, "sh", *writable, "--", *user]


@cache
def can_mount() -> bool:
    """Return True if this process may change mounts in its own namespace."""
    tried = subprocess.run(
        [*_NAMESPACE, "sh", "-ec", _READ_ONLY, "sh", "--", "true"], capture_output=True, check=False
    )
    return tried.returncode == 0
