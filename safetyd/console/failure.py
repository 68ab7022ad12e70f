"""Errors of commands, and their exit codes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

import click

from safetyd.console.terminal_text import document, plain

BLOCKED: Final = 1
USAGE: Final = 2
NEEDS_PERSON: Final = 3
NOT_REACHABLE: Final = 4

_MAX_LINE_CHARS: Final = 2000
# The extra that installs a package; `daemon` installs all others.
_EXTRAS: Final = {"textual": "tui"}


class Failure(click.ClickException):
    """An expected error. With --json, the output also has `code` and `errors`."""

    exit_code = BLOCKED

    def __init__(self, message: str, code: str = "failed", errors: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.errors = errors


class WrongUsage(Failure):
    """The arguments or options are wrong."""

    exit_code = USAGE

    def __init__(self, message: str) -> None:
        super().__init__(message, "usage")


class NotReachable(Failure):
    """No daemon answers."""

    exit_code = NOT_REACHABLE

    def __init__(self, message: str) -> None:
        super().__init__(message, "not_reachable")


class NotInstalled(Failure):
    """A command needs a package that is installed only with an extra."""

    def __init__(self, command: str, module: str, extra: str = "daemon") -> None:
        super().__init__(
            f"`safetyd {command}` needs the package {module}, which is not installed. "
            f"Run: pip install 'safetyd[{extra}]'",
            "not_installed",
        )


def need(command: str, *modules: str, extra: str = "daemon") -> None:
    """Raise `NotInstalled` if one of the modules is missing."""
    for module in modules:
        if find_spec(module) is None:
            raise NotInstalled(command, module, extra)


@contextmanager
def using_file(path: Path, done: Literal["read", "write"]) -> Iterator[None]:
    """Turn an `OSError` into a `Failure` that names the file."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as exc:
        code = "unreadable" if done == "read" else "unwritable"
        raise Failure(f"cannot {done} {path}: {exc.strerror}", code) from exc


@contextmanager
def packages_needed(command: str) -> Iterator[None]:
    """Turn `ModuleNotFoundError` into `NotInstalled`, which says how to install the package."""
    try:
        yield
    except ModuleNotFoundError as exc:
        missing = (exc.name or "").partition(".")[0]
        if missing in {"", "safetyd"}:
            raise
        raise NotInstalled(command, missing, _EXTRAS.get(missing, "daemon")) from exc


def tell(failure: click.ClickException, *, as_json: bool) -> int:
    """Print an error and return its exit code."""
    if as_json:
        click.echo(document(_told(failure)))
    elif isinstance(failure, click.UsageError):
        failure.show()
    else:
        for line in failure.message.splitlines():
            click.echo(f"safetyd: {plain(line, _MAX_LINE_CHARS)}", err=True)
    return failure.exit_code


def _told(failure: click.ClickException) -> dict[str, object]:
    told: dict[str, object] = {"ok": False, "error": failure.format_message(), "code": "usage"}
    if isinstance(failure, Failure):
        told["code"] = failure.code
        if failure.errors:
            told["errors"] = list(failure.errors)
    return told
