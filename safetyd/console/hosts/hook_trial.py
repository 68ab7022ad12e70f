"""Tries the command line in a host's settings, as the host would run it. Nothing is executed."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from safetyd.hosts.hook_answer import is_refusal
from safetyd.hosts.hook_command import HookCommand
from safetyd.hosts.hook_event import Dialect, trial_event

PATIENCE_S: Final = 60.0
HARMLESS: Final = "touch made-by-safetyd-verify"
DESTRUCTIVE: Final = "rm -rf ~"


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """One trial: what must be true, and whether it is."""

    claim: str
    holds: bool
    took_ms: float
    said: str = ""


def tried(command: HookCommand, dialect: Dialect, cwd: Path) -> Iterator[Tried]:
    """Yield what a host would see: with the daemon, without it, and without the interpreter."""
    yield _passes("a harmless command may run", command, dialect, cwd)
    yield _refuses("a destructive command may not", command, dialect, cwd)
    away = command._replace(socket=f"{command.socket}.nobody")
    yield _refuses("without the daemon nothing runs", away, dialect, cwd)
    broken = command._replace(python=f"{command.python}.missing")
    yield _refuses("without its Python nothing runs", broken, dialect, cwd)


def _passes(claim: str, command: HookCommand, dialect: Dialect, cwd: Path) -> Tried:
    ran, took_ms = _run(command, dialect, HARMLESS, cwd)
    passed = ran.returncode == 0 and not is_refusal(ran.stdout, ran.stderr, 0)
    return Tried(claim=claim, holds=passed, took_ms=took_ms, said=ran.stdout or ran.stderr)


def _refuses(claim: str, command: HookCommand, dialect: Dialect, cwd: Path) -> Tried:
    ran, took_ms = _run(command, dialect, DESTRUCTIVE, cwd)
    refused = is_refusal(ran.stdout, ran.stderr, ran.returncode)
    return Tried(claim=claim, holds=refused, took_ms=took_ms, said=ran.stdout or ran.stderr)


def _run(
    command: HookCommand, dialect: Dialect, shell: str, cwd: Path
) -> tuple[subprocess.CompletedProcess[str], float]:
    begun = time.monotonic()
    ran = subprocess.run(  # noqa: S603 - our own command line
        ["/bin/sh", "-c", command.ask(dialect)],
        input=trial_event(dialect, shell, str(cwd)).decode(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=cwd,
        check=False,
    )
    return ran, (time.monotonic() - begun) * 1000
