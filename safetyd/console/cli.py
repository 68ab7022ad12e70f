"""The command line. A command's module is imported when it is used, so that help is quick."""

import difflib
import importlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import click

from safetyd import __version__
from safetyd.console.failure import BLOCKED, packages_needed, tell


class CommandEntry(NamedTuple):
    """Where a command is found, the first sentence of its help, and its name if that is taken."""

    module: str
    summary: str
    name: str = ""


COMMANDS: Final[Mapping[str, CommandEntry]] = {
    "run": CommandEntry("subcommands.run_daemon", "Run the daemon in the foreground until Ctrl-C."),
    "demo": CommandEntry("demo.demo", "Show a few agents being allowed, asked about and blocked."),
    "check": CommandEntry(
        "subcommands.propose_action", "Ask, as an agent, whether an action may run."
    ),
    "propose": CommandEntry(
        "subcommands.propose_action", "Propose the action that stands as JSON on standard input."
    ),
    "list": CommandEntry(
        "subcommands.list_requests",
        "List what waits for a person, the most urgent first.",
        "listed",
    ),
    "show": CommandEntry("subcommands.list_requests", "Show all that is known of one request."),
    "review": CommandEntry(
        "review.open_review", "Review what waits for a person, on a screen of its own."
    ),
    "approve": CommandEntry("subcommands.answer_requests", "Let what was asked happen, once."),
    "deny": CommandEntry("subcommands.answer_requests", "Say no."),
    "defer": CommandEntry("subcommands.answer_requests", "Put requests off; they stay open."),
    "cancel": CommandEntry(
        "subcommands.answer_requests", "Withdraw requests that nobody needs to answer any more."
    ),
    "log": CommandEntry("subcommands.list_requests", "Show how requests ended, the newest first."),
    "status": CommandEntry("subcommands.overview", "Show how the daemon is and what is stopped."),
    "agents": CommandEntry("subcommands.overview", "Show what agents do."),
    "explain": CommandEntry(
        "subcommands.overview",
        "Say what was decided about a proposal, why, and what would have let it pass.",
    ),
    "watch": CommandEntry("subcommands.overview", "Print events as they happen until Ctrl-C."),
    "stop": CommandEntry("subcommands.stop_resume", "Stop everything now, or one agent."),
    "resume": CommandEntry("subcommands.stop_resume", "Let work go on after a stop."),
    "pause": CommandEntry(
        "subcommands.hold_agents", "Keep one agent from doing anything, reading included."
    ),
    "unpause": CommandEntry("subcommands.hold_agents", "Let an agent go on after a pause."),
    "safe-mode": CommandEntry(
        "subcommands.hold_agents", "Show safe mode, or put agents in it or let them go."
    ),
    "ack": CommandEntry("subcommands.hold_agents", "Say that a person is there."),
    "budgets": CommandEntry(
        "subcommands.hold_agents", "Show what is spent and set aside, and the limits; or raise one."
    ),
    "breakers": CommandEntry(
        "subcommands.hold_agents", "Show the breakers and how their calls went."
    ),
    "types": CommandEntry(
        "subcommands.hold_agents", "Show the known types of action, and which are not known."
    ),
    "grants": CommandEntry(
        "subcommands.manage_grants", "Show the grants in force, and what is left of each."
    ),
    "grant": CommandEntry(
        "subcommands.manage_grants", "Permit a kind of action for a while, or end that."
    ),
    "suggestions": CommandEntry(
        "subcommands.manage_grants", "Show the rules that people's answers add up to."
    ),
    "reset": CommandEntry(
        "subcommands.hold_agents", "Forget an agent's loop visits, rounds and cooldowns."
    ),
    "reload": CommandEntry(
        "subcommands.hold_agents", "Make the daemon read its configuration and keys again."
    ),
    "agent": CommandEntry("subcommands.manage_keys", "Manage the keys of agents."),
    "operator": CommandEntry("subcommands.manage_keys", "Manage the keys of people."),
    "nats-config": CommandEntry(
        "subcommands.show_config", "Print the accounts that a bus of your own needs."
    ),
    "notify": CommandEntry(
        "subcommands.manage_messages", "Try how people are told, and see what was not told."
    ),
    "pair": CommandEntry(
        "subcommands.manage_messages", "Print a link that lets one browser answer without codes."
    ),
    "keys": CommandEntry(
        "subcommands.manage_messages", "Manage what decision links are signed with."
    ),
    "desktop": CommandEntry(
        "subcommands.desktop_helper", "Show messages on this desktop until Ctrl-C."
    ),
    "transcripts": CommandEntry(
        "subcommands.read_records", "Show what sessions did, once they are over."
    ),
    "audit": CommandEntry("subcommands.read_records", "Read and verify the audit files."),
    "export": CommandEntry(
        "subcommands.export_state", "Write queue.json, history.json and config.json into DIR."
    ),
    "config": CommandEntry("subcommands.show_config", "Check and show configuration."),
    "doctor": CommandEntry("doctor.doctor", "Look for what is wrong, and say what to do."),
    "docs": CommandEntry(
        "subcommands.read_documents",
        "Show the documents, configurations and units that came with safetyd.",
    ),
    "version": CommandEntry("subcommands.overview", "Print the versions of what is at work."),
}


class ReaderGone(Exception):
    """Whoever read the output has seen enough, as `head` has after ten lines."""


class Commands(click.Group):
    """The commands of the table above."""

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
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        with packages_needed(cmd_name):
            module = importlib.import_module(f"safetyd.console.{entry.module}")
        command: click.Command = getattr(module, entry.name or cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="safetyd")
@click.pass_context
def commands(ctx: click.Context) -> None:
    """Decide which of an agent's proposed actions may run.

    Exit codes: 0 done or allowed, 1 blocked or failed, 2 wrong usage, 3 needs a person, 4 no
    daemon answers.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> None:
    """Run the command that was typed, and end with its exit code."""
    if sys.argv[1:2] == ["run"]:
        # It waits for the daemon, which hears it once it can reload.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    code = 0
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except (ReaderGone, BrokenPipeError):
        # Python would complain of what is still to be written when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code."""
    try:
        code = commands.main(arguments, prog_name="safetyd", standalone_mode=False)
    except click.ClickException as exc:
        return tell(exc, as_json="--json" in arguments)
    except click.Abort:
        click.echo("Interrupted.", err=True)
        return BLOCKED
    return code or 0


@contextmanager
def _reader_may_go() -> Iterator[None]:
    # click would end with 1.
    try:
        yield
    except BrokenPipeError as exc:
        raise ReaderGone from exc
