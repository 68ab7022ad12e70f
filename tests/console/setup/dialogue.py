"""A command that asks, in a terminal of its own: each answer is typed once its question stands."""

import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.conftest import environment
from tests.console.console_rig import Said

PROMPT = ": "


class Dialogue:
    """`screen` is what stands in the terminal so far."""

    def __init__(self, *arguments: str, cwd: Path, **variables: str) -> None:
        self.screen = ""
        self._seen = 0
        self._own, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "safetyd", *arguments],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
            cwd=cwd,
            env=environment(**variables),
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._process:
            self._process.kill()
        os.close(self._own)

    def answer(self, *answers: str) -> None:
        """Type an answer to each of the next questions, and Enter after it."""
        for typed in answers:
            self.press(f"{typed}\n")

    def press(self, keys: str) -> None:
        """Press keys once a question stands there."""
        self._read(until=PROMPT)
        self._seen = len(self.screen)
        os.write(self._own, keys.encode())

    def end(self) -> Said:
        """Return the exit code, what was printed, and what stands in the terminal."""
        self._read()
        printed, _ = self._process.communicate()
        return Said(self._process.returncode, printed, self.screen)

    def _read(self, until: str = "") -> None:
        """Read until something new ends so, or everything."""
        while not until or not self.screen[self._seen :].endswith(until):
            try:
                data = os.read(self._own, 4096)
            except OSError:  # nobody is left on the other side
                assert not until, self.screen
                return
            self.screen += data.decode().replace("\r\n", "\n")


def dialogue(*arguments: str, typed: Sequence[str], cwd: Path, **variables: str) -> Said:
    """Answer every question of a command and return what came of it."""
    with Dialogue(*arguments, cwd=cwd, **variables) as opened:
        opened.answer(*typed)
        return opened.end()
