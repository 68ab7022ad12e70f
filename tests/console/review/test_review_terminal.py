"""The command itself, in a terminal that a test can read."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from typing import Final

import pyte
import pytest

from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon, environment
from tests.console.console_rig import told
from tests.console.review.test_screen import ask

COLUMNS: Final = 80
LINES: Final = 24
PATIENCE_S: Final = 30.0


class Terminal:
    """`safetyd review` in a pseudo-terminal of its own, 80 by 24."""

    def __init__(self, daemon: RunningDaemon, **variables: str) -> None:
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.ByteStream(self._screen)
        self._own, theirs = pty.openpty()
        size = struct.pack("HHHH", LINES, COLUMNS, 0, 0)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
        named = {"SAFETYD_DATA_DIR": str(daemon.data_dir), "TERM": "xterm-256color", **variables}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "safetyd", "review"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(**named),
            start_new_session=True,
        )
        os.close(theirs)

    @property
    def text(self) -> str:
        return "\n".join(self._screen.display)

    def press(self, keys: str) -> None:
        os.write(self._own, keys.encode())

    def sees(self, *words: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not all(word in self.text for word in words):
            assert self._reads(end - time.monotonic()), f"{words} is not there:\n{self.text}"

    def ends(self) -> int:
        """Return the exit code, reading on so that nothing holds the program up."""
        end = time.monotonic() + PATIENCE_S
        while self._reads(end - time.monotonic()):
            pass
        return self._process.wait(PATIENCE_S)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._own)

    def _reads(self, patience_s: float) -> bool:
        """Take in what was drawn; False once nothing more can come."""
        if not select.select([self._own], [], [], max(patience_s, 0.0))[0]:
            return False
        try:
            drawn = os.read(self._own, 65536)
        except OSError:  # how Linux says that the other end is closed
            return False
        self._stream.feed(drawn)
        return bool(drawn)


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    daemon = start_module_daemon(UNLIMITED)
    ask(daemon, "code")
    return daemon


@pytest.fixture(params=[{}, {"NO_COLOR": "1"}], ids=["colour", "no colour"])
def terminal(daemon: RunningDaemon, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    terminal = Terminal(daemon, **request.param)
    yield terminal
    terminal.close()


@pytest.mark.req("S3.49")
def test_review_fills_a_terminal_of_80_by_24_until_q(terminal: Terminal) -> None:
    terminal.sees("Review as local: 1 pending", "push: git push origin fix-auth", "[q] quit")
    terminal.sees("(pending): code wants to do this")
    terminal.press("v")
    terminal.sees("exact text", "+new = 2")
    terminal.press("q")
    terminal.sees("Review as local")
    terminal.press("q")

    assert terminal.ends() == 0


def test_without_a_terminal_review_says_what_to_use_instead(daemon):
    said = told(daemon, "review")

    assert said.returncode == 2
    assert "review needs a terminal, and this is none; use `safetyd list`" in said.stderr


def test_a_terminal_that_cannot_draw_is_told_so(daemon):
    terminal = Terminal(daemon, TERM="dumb")
    terminal.sees("the terminal cannot draw a screen (TERM is dumb)")

    assert terminal.ends() == 2
    terminal.close()


def test_without_a_daemon_no_screen_is_opened(start_daemon: StartDaemon) -> None:
    stopped = start_daemon()
    stopped.stop()
    terminal = Terminal(stopped)
    terminal.sees("no safetyd runs on")

    assert terminal.ends() == 4
    terminal.close()


def test_other_commands_do_not_load_the_screen() -> None:
    probe = "import sys; import safetyd.console.cli as c; c.run(['--help']); print(*sys.modules)"

    said = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)

    assert "review" in said.stdout
    assert " textual " not in said.stdout
