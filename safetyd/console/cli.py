"""Runs the command that was typed. Its module is imported only then, so that help stays fast."""

import difflib
import importlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import click

from safetyd import __version__
from safetyd.console.command_table import COMMANDS, GROUPS
from safetyd.console.completion import TABLE
from safetyd.console.failure import BLOCKED, WrongUsage, packages_needed, tell
from safetyd.console.help_page import Group

COMPLETING: Final = "_SAFETYD_COMPLETE"  # set by the shell while it completes a command line


class ReaderGone(Exception):
    """The reader of standard output closed it, as `head` does after ten lines."""


class Commands(Group):
    """The root command, which finds its subcommands in `command_table`."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        with _reader_may_go():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _reader_may_go():
            return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as exc:
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx) from exc

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        place, _, name = COMMANDS[cmd_name].partition(":")
        with packages_needed(cmd_name):
            module = importlib.import_module(f"safetyd.console.{place}")
        command: click.Command = getattr(module, name or cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        help_of = json.loads(TABLE.read_text())["commands"]
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, help_of[name]["help"]) for name in group])


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="safetyd")
@click.pass_context
def commands(ctx: click.Context) -> None:
    """Decide which actions of AI agents may run.

    Agents propose actions. safetyd allows them, blocks them, or asks an operator for approval.

    Times are in your local time zone; JSON, logs and audit files use UTC. To see UTC everywhere,
    set TZ=UTC.

    Exit codes: 0 done or allowed, 1 failed or blocked, 2 usage error, 3 needs approval, 4 cannot
    reach the daemon.

    For example:
      # Write a configuration, then start the daemon
      safetyd init
      safetyd run

      # Ask whether an action would be allowed
      safetyd check code run_shell --text 'rm -rf build' --dry-run

      # See the state of everything, and answer pending requests
      safetyd status
      safetyd review

      # Stop all agents now
      safetyd stop "wrong customer list"
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> None:
    """Run the command that was typed and exit with its code."""
    if sys.argv[1:2] == ["run"]:
        # A SIGHUP that arrives early stays pending until the daemon can handle it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    code = 0
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except (ReaderGone, BrokenPipeError):
        # Otherwise Python reports an error when it flushes standard output at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code."""
    if COMPLETING in os.environ:
        importlib.import_module("safetyd.console.completion").register()
    try:
        _check_text(arguments)
        code = commands.main(arguments, prog_name="safetyd", standalone_mode=False)
    except click.ClickException as exc:
        return tell(exc, as_json="--json" in arguments)
    except click.Abort:
        click.echo("Interrupted.", err=True)
        return BLOCKED
    return code or 0


def _check_text(arguments: Sequence[str]) -> None:
    """Reject arguments and environment variables that are not UTF-8."""
    given = {name: value for name, value in os.environ.items() if name.startswith("SAFETYD_")}
    for name, value in (*(("argument", each) for each in arguments), *given.items()):
        if not _is_utf8(value):
            shown = value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            raise WrongUsage(f"{name} {shown!r} is not valid UTF-8")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def _reader_may_go() -> Iterator[None]:
    # click itself would exit with code 1.
    try:
        yield
    except BrokenPipeError as exc:
        raise ReaderGone from exc
