"""What a command says when it cannot do what it was asked, and the exit code that goes with it."""

from typing import Final

import click

from safetyd.console.plain import document, plain

BLOCKED: Final = 1
USAGE: Final = 2
NEEDS_PERSON: Final = 3
NOT_REACHABLE: Final = 4

_MAX_LINE_CHARS: Final = 2000


class Failure(click.ClickException):
    """An expected failure; `code` is for machines."""

    exit_code = BLOCKED

    def __init__(self, message: str, code: str = "failed") -> None:
        super().__init__(message)
        self.code = code


class NotReachable(Failure):
    """No daemon answered."""

    exit_code = NOT_REACHABLE

    def __init__(self, message: str) -> None:
        super().__init__(message, "not_reachable")


def tell(failure: click.ClickException, *, as_json: bool) -> int:
    """Say what went wrong and return the exit code."""
    if as_json:
        code = failure.code if isinstance(failure, Failure) else "usage"
        error = failure.format_message()
        click.echo(document({"ok": False, "error": error, "code": code}))
    elif isinstance(failure, click.UsageError):
        failure.show()
    else:
        for line in failure.message.splitlines():
            click.echo(f"safetyd: {plain(line, _MAX_LINE_CHARS)}", err=True)
    return failure.exit_code
