"""Runs git so that the folder cannot make git run anything: no hooks, filters or helpers.

It uses only the configuration in `GIT_DIR`, which belongs to safetyd. Settings that could start a
program are also set on the command line, which overrides everything.
"""

import contextlib
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import IO, Final, NamedTuple

from safetyd.extras.file_history.history_records import HistoryError, named

OLDEST: Final = (2, 34)  # repack --geometric, GIT_CONFIG_GLOBAL
PATIENCE_S: Final = 300.0  # for one command; long, because the first commit reads everything
SUSPICIOUS_S: Final = 1.0  # after this time, check for pipes that git may be waiting for
WITH_PIPES_S: Final = 20.0  # timeout for one command if there are pipes
_POLL_S: Final = 0.02
_SAID: Final = 300  # characters of git's output in an error

_ARMOUR: Final = (
    *("--no-pager", "--no-replace-objects", "--no-optional-locks"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.untrackedCache=false"),
    *("-c", "protocol.allow=never"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
    *("-c", "commit.gpgSign=false"),
    *("-c", "diff.external="),
    *("-c", "core.commitGraph=false"),
)
_CLEAN: Final = {
    "LC_ALL": "C",
    "TZ": "UTC",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # no such protocol exists, so git never fetches anything
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
}
_VERSION: Final = re.compile(rb"git version (\d+)\.(\d+)[^\s]*")


class GitFailed(HistoryError):
    """git failed."""


class Done(NamedTuple):
    """The exit code and output of a command."""

    code: int
    out: bytes
    said: bytes


class Git:
    """git with a `GIT_DIR` and variables. git inherits the lock `held`, and holds it too."""

    def __init__(self, folder: Path, variables: Mapping[str, str], held: int | None = None) -> None:
        self.folder = folder
        self._variables = dict(variables)
        self._held = held

    def using(self, **variables: str) -> "Git":
        """Return the same git with additional variables."""
        return Git(self.folder, {**self._variables, **variables}, self._held)

    def holding(self, held: int) -> "Git":
        return Git(self.folder, self._variables, held)

    def run(self, *arguments: str, stdin: bytes = b"", codes: tuple[int, ...] = (0,)) -> Done:
        """Run a command; `codes` are the accepted exit codes."""
        with _file_with(stdin) as given, self._started(arguments, given) as process:
            top = self._variables.get("GIT_WORK_TREE", "")
            try:
                out, said = _finished(process, top)
            except subprocess.TimeoutExpired:
                raise HistoryError(
                    f"git {arguments[0]} took more than {PATIENCE_S:g} s in {self.folder}"
                ) from None
        if process.returncode not in codes:
            raise _failure(arguments[0], process.returncode, said)
        return Done(process.returncode, out, said)

    def read(self, *arguments: str, stdin: bytes = b"", codes: tuple[int, ...] = (0,)) -> bytes:
        return self.run(*arguments, stdin=stdin, codes=codes).out

    def line(self, *arguments: str, stdin: bytes = b"", codes: tuple[int, ...] = (0,)) -> str:
        """Return the single line that a command prints, or an empty text."""
        return self.read(*arguments, stdin=stdin, codes=codes).decode().strip()

    def beginning(self, limit: int, *arguments: str) -> tuple[bytes, bool]:
        """Return the output of a command up to a limit, and True if it is complete."""
        with self._started(arguments) as process, _ended_in_time(process):
            out = _pipe(process.stdout).read(limit + 1)
            if len(out) > limit:
                return out[:limit], False
            _, said = process.communicate(timeout=PATIENCE_S)
        if process.returncode:
            raise _failure(arguments[0], process.returncode, said)
        return out, True

    @contextlib.contextmanager
    def talking(self, *arguments: str) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
        """Keep an interactive command running; yield its stdin and stdout."""
        with self._started(arguments, subprocess.PIPE) as process, _ended_in_time(process):
            yield _pipe(process.stdin), _pipe(process.stdout)

    @contextlib.contextmanager
    def _started(
        self, arguments: tuple[str, ...], stdin: int | IO[bytes] = subprocess.DEVNULL
    ) -> Iterator[subprocess.Popen[bytes]]:
        process = subprocess.Popen(  # noqa: S603 - a list of arguments, and no shell
            [binary(), *_ARMOUR, *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            env=self._environment(),
            process_group=0,
            pass_fds=() if self._held is None else (self._held,),
        )
        try:
            yield process
        finally:
            _end(process)
            _close(process)
            process.wait()

    def _environment(self) -> dict[str, str]:
        folder = str(self.folder)
        path = os.environ.get("PATH", os.defpath)
        own = {"PATH": path, "HOME": folder, "XDG_CONFIG_HOME": folder, "GIT_DIR": folder}
        return {**own, **_CLEAN, **self._variables}


def binary() -> str:
    """Return the path of git; raise if it is missing."""
    found = shutil.which("git")
    if found is None:
        raise HistoryError(f"git is not in PATH; install git {_dotted(OLDEST)} or newer")
    return found


def version_problem() -> str:
    """Return the problem with the installed git, or an empty text."""
    try:
        said = subprocess.run(  # noqa: S603 - no shell
            [binary(), "--version"], capture_output=True, check=False, timeout=PATIENCE_S
        ).stdout
    except HistoryError as exc:
        return str(exc)
    except (OSError, subprocess.TimeoutExpired) as exc:
        return f"cannot run git: {exc}"
    found = _VERSION.match(said)
    if found is None:
        return f"git --version says {said[:60]!r}; install git {_dotted(OLDEST)} or newer"
    if (int(found[1]), int(found[2])) < OLDEST:
        have = found[0].decode().removeprefix("git version ")
        return f"git {have} is too old; install git {_dotted(OLDEST)} or newer"
    return ""


@contextlib.contextmanager
def _file_with(content: bytes) -> Iterator[int | IO[bytes]]:
    """Yield the standard input of a command.

    It is a file, because `communicate` forgets the rest of its input after a timeout.
    """
    if not content:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file


def _finished(process: subprocess.Popen[bytes], top: str) -> tuple[bytes, bytes]:
    """Return the output of a command. If git waits for a pipe in the folder, unblock git."""
    patience = monotonic() + PATIENCE_S
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.communicate(timeout=SUSPICIOUS_S if top else PATIENCE_S)
    pipes = list(_pipes(top)) if top else []
    if pipes:
        patience = monotonic() + WITH_PIPES_S
    while monotonic() < patience:
        for pipe in pipes:
            _let_go(pipe)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=_POLL_S if pipes else patience - monotonic())
    if pipes:
        raise HistoryError(f"{named(pipes)} is a pipe, which git cannot read; remove it")
    raise subprocess.TimeoutExpired(process.args, PATIENCE_S)


def _pipes(top: str) -> Iterator[bytes]:
    """Yield pipes with names that git reads, such as `.gitignore`."""
    folders = [os.fsencode(top)]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.name.startswith(b".git") and stat.S_ISFIFO(
                    entry.stat(follow_symlinks=False).st_mode
                ):
                    yield entry.path


def _let_go(pipe: bytes) -> None:
    """Unblock a process that reads a pipe. For that process, the pipe is empty."""
    with contextlib.suppress(OSError):
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC))


def _failure(command: str, code: int, said: bytes) -> GitFailed:
    words = " ".join(said.decode(errors="replace").split())[:_SAID]
    how = (
        f"was killed by {signal.Signals(-code).name}"
        if code < 0
        else f"failed with exit code {code}"
    )
    return GitFailed(f"git {command} {how}: {words or 'no output'}")


@contextlib.contextmanager
def _ended_in_time(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill a process that runs for too long."""
    timer = threading.Timer(PATIENCE_S, _end, (process,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _close(process: subprocess.Popen[bytes]) -> None:
    for end in (process.stdin, process.stdout, process.stderr):
        if end is not None:
            with contextlib.suppress(BrokenPipeError):
                end.close()


def _pipe(end: IO[bytes] | None) -> IO[bytes]:
    if end is None:
        raise AssertionError("stdin and stdout of the process are pipes")
    return end


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
