"""A program at a terminal, and a person who presses keys."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

SIZE: Final = struct.pack("HHHH", 50, 160, 0, 0)  # rows and columns
TICK_S: Final = 0.2

# Sequences that move the cursor, set colours or name the window.
_CONTROL: Final = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-9;?<>=]*[A-Za-z]|\s")


class Keys(NamedTuple):
    """Keys that are pressed once a text is on the screen. Spaces in the text do not count."""

    after: str
    keys: bytes


class Terminal:
    """Runs a program until the end of the context."""

    def __init__(self, command: Sequence[str], cwd: Path, variables: Mapping[str, str]) -> None:
        self._written = b""
        self._seen = 0  # where in the text the next keys are expected
        self._main, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, SIZE)
        self._running = subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(variables),
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
        )
        os.close(other)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _problem: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._running.pid, signal.SIGKILL)
        self._running.wait()
        os.close(self._main)

    @property
    def text(self) -> str:
        """Everything that was written, without spaces."""
        return _CONTROL.sub("", self._written.decode(errors="replace"))

    def use(self, keys: Sequence[Keys], ended: Callable[[], bool], limit_s: float) -> None:
        """Press keys in their order. Return after the last of them, or when `ended`."""
        left, until = list(keys), time.monotonic() + limit_s
        while not ended() and self._running.poll() is None:
            assert time.monotonic() < until, self.text[-2000:]
            self._read()
            if left and (at := self.text.find(left[0].after, self._seen)) >= 0:
                self._seen = at + len(left[0].after)
                os.write(self._main, left.pop(0).keys)
            elif keys and not left:
                return

    def _read(self) -> None:
        if select.select([self._main], [], [], TICK_S)[0]:
            with suppress(OSError):  # the program has ended
                self._written += os.read(self._main, 65536)
