"""`safetyd run` in a process forked from one that has already imported it.

Importing is four fifths of a start, and tests start hundreds of daemons.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Final

from safetyd.console.cli import main

_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["safetyd.console.subcommands.run_daemon", __name__])


class ForkedProcess:
    """A command of safetyd; what it prints can be read from `stdout`, and `log` has its errors."""

    def __init__(
        self, arguments: Sequence[str], log: IO[bytes], variables: Mapping[str, str]
    ) -> None:
        self.stdout, theirs = _FORKS.Pipe(duplex=False)
        command = (tuple(arguments), theirs, log.name, dict(variables))
        self._process = _FORKS.Process(target=_run, args=command)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout_s: float | None = None) -> int:
        self._process.join(timeout_s)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("safetyd", timeout_s or 0.0)
        return self._process.exitcode


def _run(
    arguments: tuple[str, ...], out: Connection, log: str, variables: Mapping[str, str]
) -> None:
    with Path(log).open("ab") as errors:
        os.dup2(errors.fileno(), sys.stderr.fileno())
    os.dup2(out.fileno(), sys.stdout.fileno())
    out.close()
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()
    sys.argv = ["safetyd", *arguments]
    main()
