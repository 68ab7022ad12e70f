"""The command line in this process: quicker than a new one, and the same to whoever types it."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from click.testing import CliRunner

from safetyd.console.cli import run
from tests.conftest import RunningDaemon, environment

SAFETYD = (sys.executable, "-m", "safetyd")
_OURS = (
    "AI_COMPANY_ENABLED",
    "SAFETYD_DATA_DIR",
    "SAFETYD_ENABLED",
    "SAFETYD_KEY_FILE",
    "SAFETYD_URL",
    "STATE_DIRECTORY",
)


class Said(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def here(*arguments: str, stdin: str = "", **variables: str) -> Said:
    """Run a command and return what it said, as `tests.conftest.safetyd` does."""
    clean = dict.fromkeys(_OURS)
    with CliRunner().isolation(stdin, {**clean, **environment(**variables)}) as (out, err, _):
        try:
            code = run(arguments)
        except SystemExit as exc:
            code = int(exc.code or 0)
        return Said(code, out.getvalue().decode(), err.getvalue().decode())


def told(daemon: RunningDaemon, *arguments: str, stdin: str = "", **variables: str) -> Said:
    """The same against a daemon's data dir."""
    return here(*arguments, stdin=stdin, SAFETYD_DATA_DIR=str(daemon.data_dir), **variables)


def at_a_terminal(
    *arguments: str,
    typed: str = "",
    after: str = "",
    meanwhile: Callable[[], object] = bool,
    program: Sequence[str] = SAFETYD,
    **variables: str,
) -> str:
    """Run a command in a terminal of its own and return what stands there in the end.

    What is `typed` before a command hides it is lost: then `after` is the question to wait for.
    `meanwhile` is called while the command waits for it.
    """
    own, theirs = pty.openpty()
    with subprocess.Popen(
        [*program, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(**variables),
        start_new_session=True,
    ):
        os.close(theirs)
        said = b""
        while after.encode() not in said:
            said += os.read(own, 4096)
        meanwhile()
        os.write(own, typed.encode())
        said += b"".join(_until_it_ends(own))
    os.close(own)
    return said.decode().replace("\r\n", "\n")


def _until_it_ends(terminal: int) -> Iterator[bytes]:
    try:
        while data := os.read(terminal, 4096):
            yield data
    except OSError:
        return  # nobody is left on the other side
