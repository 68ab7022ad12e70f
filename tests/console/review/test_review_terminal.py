"""The command itself, in a terminal that a test can read."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from itertools import product
from typing import Final

import pyte
import pytest
from pyte.screens import Char

from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon, environment
from tests.console.console_rig import told
from tests.console.review.test_screen import ask, person

COLUMNS: Final = 80
LINES: Final = 24
PATIENCE_S: Final = 30.0
DEAF: Final = ("sh", "-c", "trap '' HUP; exec \"$@\"", "sh")  # starts what ignores hang-ups
PASTE, PASTED = "\x1b[200~", "\x1b[201~"  # around what is pasted
is_shade = re.compile(r"[0-9a-f]{6}").fullmatch


class Terminal:
    """`safetyd review` in a pseudo-terminal of its own."""

    def __init__(
        self,
        daemon: RunningDaemon,
        size: tuple[int, int] = (COLUMNS, LINES),
        starter: tuple[str, ...] = (),
        /,
        **variables: str,
    ) -> None:
        columns, lines = size
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._own, theirs = pty.openpty()
        window = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, window)
        named = {"SAFETYD_DATA_DIR": str(daemon.data_dir), "TERM": "xterm-256color", **variables}
        self._process = subprocess.Popen(
            [*starter, sys.executable, "-m", "safetyd", "review"],
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

    @property
    def underlined(self) -> str:
        return "".join(cell.data for cell in self._cells if cell.underscore)

    @property
    def colours(self) -> set[str]:
        """The colours of what is written, but for greys."""
        found = {cell.fg for cell in self._cells if is_shade(cell.fg)}
        return {shade for shade in found if len({shade[:2], shade[2:4], shade[4:]}) > 1}

    @property
    def _cells(self) -> list[Char]:
        places = product(range(self._screen.lines), range(self._screen.columns))
        return [self._screen.buffer[row][column] for row, column in places]

    def press(self, keys: str) -> None:
        os.write(self._own, keys.encode())

    def sees(self, *words: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not all(word in self.text for word in words):
            assert self._reads(end - time.monotonic()), f"{words} is not there:\n{self.text}"

    def sees_no(self, word: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while word in self.text:
            assert self._reads(end - time.monotonic()), f"{word} is still there:\n{self.text}"

    def underlines(self, words: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while self.underlined != words:
            assert self._reads(end - time.monotonic()), f"{self.underlined!r} is underlined"

    def ends(self) -> int:
        """Return the exit code, reading on so that nothing holds the program up."""
        end = time.monotonic() + PATIENCE_S
        while self._reads(end - time.monotonic()):
            pass
        return self._process.wait(PATIENCE_S)

    def hangs_up(self) -> int:
        """Take the terminal away, and return how the program ends."""
        os.close(self._own)
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


@pytest.mark.req("S3.49")
def test_review_fills_a_terminal_of_80_by_24_until_q(daemon: RunningDaemon) -> None:
    terminal = Terminal(daemon)
    terminal.sees("Review as local: 1 pending", "push: git push origin fix-auth", "[q] quit")
    terminal.sees("push by code (req_")
    terminal.press("v")
    terminal.sees("exact text", "+new = 2", "[Esc] back")
    terminal.press("q")
    terminal.sees("Review as local")
    terminal.press("q")

    assert terminal.ends() == 0
    terminal.close()


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["80x24", "120x40"])
@pytest.mark.parametrize("colour", [True, False], ids=["colour", "no colour"])
def test_what_matters_is_seen_in_any_terminal(start_daemon, size, colour):
    daemon = start_daemon(UNLIMITED)
    command = ("--text", "ls; acmectl lint")
    daemon.safetyd("check", "builder", "run_shell", *command)
    variables = {"TZ": "Asia/Kathmandu"} | ({} if colour else {"NO_COLOR": "1"})
    terminal = Terminal(daemon, size, **variables)

    terminal.sees(" NORMAL  Review as local: 1 pending, the oldest for ", ">normal")
    terminal.sees("run_shell by builder (req_", "normal urgency, high risk")
    terminal.sees("exact text", "parts that need approval")
    terminal.sees("[a] approve", "[d] deny", "[g] grant", "[s] defer", "[?] help", "[q] quit")

    terminal.underlines("acmectl lint")
    assert bool(terminal.colours) is colour
    terminal.close()


@pytest.mark.parametrize("starter", [(), DEAF], ids=["not told", "deaf"])
def test_review_ends_with_its_terminal(daemon, starter):
    terminal = Terminal(daemon, (COLUMNS, LINES), starter)
    terminal.sees("Review as local: 1 pending", "[q] quit")

    assert terminal.hangs_up() == -signal.SIGHUP


@pytest.fixture
def waiting(start_daemon: StartDaemon) -> Iterator[tuple[RunningDaemon, str, Terminal]]:
    """A request of its own, and a screen on which it is read."""
    daemon = start_daemon(UNLIMITED)
    request = ask(daemon, "reader")
    terminal = Terminal(daemon)
    terminal.sees(f"({request}, pending)", "[q] quit")
    yield daemon, request, terminal
    terminal.close()


def test_a_filter_typed_in_a_burst_filters_and_approves_nothing(waiting):
    daemon, request, terminal = waiting

    terminal.press("/read\r")
    terminal.sees("filter: read", "push: git push origin fix-auth")
    terminal.press("q")

    assert terminal.ends() == 0
    assert state(daemon, request) == "pending"


@pytest.mark.parametrize("key", ["a", "g"])
@pytest.mark.parametrize("burst", ["\r", f"{PASTE}ok{PASTED}\r\r"], ids=repr)
def test_an_approval_takes_no_enter_that_was_typed_before_it_was_shown(waiting, key, burst):
    daemon, request, terminal = waiting

    terminal.press(key + burst)
    terminal.sees("Approve", "[Enter] send it")
    terminal.press("\x1b")
    terminal.sees_no("[Esc] back")
    assert state(daemon, request) == "pending"

    terminal.press(key)
    terminal.sees("Approve", "[Enter] send it")
    terminal.press("\r")
    terminal.sees(f"{request}: approved")


@pytest.mark.parametrize("before", ["d", "v", "?", "\r", "jk"], ids=repr)
def test_what_opens_anything_opens_no_approval_behind_it(waiting, before):
    daemon, request, terminal = waiting

    terminal.press(f"{before}a\ra\r")
    terminal.sees("[Esc] back", "Approve 1 request?" if before == "jk" else "")
    terminal.press("\x1b")
    terminal.sees_no("[Esc] back")
    terminal.press("q")

    assert terminal.ends() == 0
    assert state(daemon, request) == "pending"


def test_a_paste_is_no_key(waiting):
    daemon, request, terminal = waiting

    terminal.press(f"{PASTE}a\r{PASTED}{PASTE}q{PASTED}a")
    terminal.sees("Approve 1 request?", "[Enter] send it")
    terminal.press(f"{PASTE}fine\r\r{PASTED}")
    terminal.sees("Approve 1 request?", "fine")
    assert state(daemon, request) == "pending"


def state(daemon: RunningDaemon, request: str) -> str:
    return str(person(daemon, "query", "request", id=request)["request"]["state"])


def test_without_a_terminal_review_says_what_to_use_instead(daemon):
    said = told(daemon, "review")

    assert said.returncode == 2
    assert "review needs a terminal; use `safetyd list`" in said.stderr


def test_a_terminal_that_cannot_draw_is_told_so(daemon):
    terminal = Terminal(daemon, TERM="dumb")
    terminal.sees("this terminal cannot draw a screen (TERM is dumb)")

    assert terminal.ends() == 2
    terminal.close()


def test_without_a_daemon_no_screen_is_opened(start_daemon: StartDaemon) -> None:
    stopped = start_daemon()
    stopped.stop()
    terminal = Terminal(stopped)
    terminal.sees("safetyd is not running on")

    assert terminal.ends() == 4
    terminal.close()


def test_other_commands_do_not_load_the_screen() -> None:
    probe = "import sys; import safetyd.console.cli as c; c.run(['--help']); print(*sys.modules)"

    said = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)

    assert "review" in said.stdout
    assert " textual " not in said.stdout
