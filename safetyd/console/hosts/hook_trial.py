"""Runs the hook in a host's settings, as the host would. The tool calls are not executed."""

import shlex
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from safetyd.hosts.hook_answer import is_refusal
from safetyd.hosts.hook_command import HookCommand
from safetyd.hosts.hook_event import Dialect, trial_event

PATIENCE_S: Final = 60.0
TIMED: Final = 10  # calls
HARMLESS: Final = "ls"  # it needs no approval in any profile
DESTRUCTIVE: Final = "rm -rf ~"


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """One trial: what must be true, and whether it is."""

    claim: str
    holds: bool
    took_ms: float  # the median, if there were several calls
    calls: int = 1
    said: str = ""


class Trial(NamedTuple):
    """A command line, what it is made of, and the host that runs it."""

    line: str
    command: HookCommand
    dialect: Dialect
    cwd: Path

    def results(self) -> Iterator[Tried]:
        """Yield what the host would see: with the daemon, without it, and without the Python."""
        yield self._passes()
        yield self._refuses("a destructive command is blocked", self.line)
        socket, python = self.command.socket, self.command.python
        away = _with(self.line, socket, f"{socket}.nobody")
        yield self._refuses("without the daemon nothing runs", away)
        broken = _with(self.line, python, f"{python}.missing")
        yield self._refuses("without the hook's Python nothing runs", broken)

    def answer(self) -> str:
        """Return all that the hook prints for a harmless command."""
        ran, _ = self._run(self.line, HARMLESS)
        return ran.stdout + ran.stderr

    def _passes(self) -> Tried:
        ran, took_ms = self._run(self.line, HARMLESS)
        times = [took_ms]
        passed = ran.returncode == 0 and not is_refusal(ran.stdout, ran.stderr, 0)
        if passed:
            times += [self._run(self.line, HARMLESS)[1] for _ in range(TIMED - 1)]
        return Tried(
            claim="a harmless command may run",
            holds=passed,
            took_ms=statistics.median(times),
            calls=len(times),
            said=ran.stdout or ran.stderr,
        )

    def _refuses(self, claim: str, line: str) -> Tried:
        ran, took_ms = self._run(line, DESTRUCTIVE)
        refused = is_refusal(ran.stdout, ran.stderr, ran.returncode)
        return Tried(claim=claim, holds=refused, took_ms=took_ms, said=ran.stdout or ran.stderr)

    def _run(self, line: str, shell: str) -> tuple[subprocess.CompletedProcess[str], float]:
        begun = time.monotonic()
        ran = subprocess.run(  # noqa: S603 - the line in the user's own settings
            ["/bin/sh", "-c", line],
            input=trial_event(self.dialect, shell, str(self.cwd)).decode(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            cwd=self.cwd,
            check=False,
        )
        return ran, (time.monotonic() - begun) * 1000


def _with(line: str, word: str, other: str) -> str:
    """Return a command line with `word` replaced by `other`."""
    return line.replace(shlex.quote(word), shlex.quote(other), 1)
