"""`safetyd shell`: analyse a command, show known programs, measure a corpus."""

import shutil
import sys
from pathlib import Path
from typing import Final

import click
import msgspec

from safetyd.console.daemon_config import read_config
from safetyd.console.failure import BLOCKED, NEEDS_PERSON, Failure, WrongUsage
from safetyd.console.help_page import command
from safetyd.console.options import config_option, data_dir_option, json_option
from safetyd.console.render import program_table, shell_reading
from safetyd.console.shell.command_trial import CommandTrial, Place
from safetyd.console.shell.corpus import load_corpus, measure
from safetyd.console.terminal_text import document, plain
from safetyd.core.action_types import Profile
from safetyd.core.messages.proposal import MAX_TEXT_BYTES
from safetyd.core.messages.verdict import Severity
from safetyd.core.policy import Policy
from safetyd.core.shell.programs import Table, shipped
from safetyd.daemon.config import Config
from safetyd.daemon.settings import policy_of
from safetyd.host import own_config

_EXIT: Final = {Severity.ALLOW: 0, Severity.ASK: NEEDS_PERSON, Severity.BLOCK: BLOCKED}


@command()
@click.argument("command", default="")
@click.option(
    "--table", is_flag=True, help="Show the entry of the program COMMAND, or list all programs."
)
@click.option(
    "--corpus",
    type=click.Path(path_type=Path),
    help="Analyse a file of labelled commands and count wrong decisions.",
)
@click.option("--verbose", is_flag=True, help="With --corpus: list the wrong decisions.")
@click.option("--project", metavar="NAME", help="Decide as for an agent of this project.")
@click.option(
    "--cwd", type=click.Path(path_type=Path), help="The folder that the command would run in."
)
@click.option(
    "--profile",
    type=click.Choice(["coding", "strict"]),
    help="Use this profile instead of the configured one.",
)
@config_option
@data_dir_option
@json_option
def shell(  # noqa: PLR0913 - the options of a command
    command: str,
    config_path: Path | None,
    directory: Path,
    *,
    project: str | None,
    cwd: Path | None,
    profile: Profile | None,
    corpus: Path | None,
    table: bool,
    verbose: bool,
    as_json: bool,
) -> int:
    """Show how a shell command is analysed and whether it would be allowed.

    The command is never run, and no daemon is needed. Without COMMAND, the command is read from
    standard input. The exit code is 0 if the command is allowed, 3 if it needs approval and 1 if it
    is blocked.

    For example:
      safetyd shell 'rm -rf node_modules'
      safetyd shell --project web --cwd /srv/web 'git push'
      safetyd shell --table kubectl
    """
    config_path = config_path or own_config(directory)
    config = _config(config_path, profile)
    if table:
        return _print_table(shipped().with_rows(config.shell.programs), command, as_json=as_json)
    policy = policy_of(config, directory, config_path)
    place = _place(policy, project, cwd)
    if corpus is not None:
        return _print_corpus(CommandTrial(policy), corpus, place, verbose=verbose, as_json=as_json)
    read = CommandTrial(policy).read(_command(command), place)
    columns = shutil.get_terminal_size().columns
    click.echo(document(read) if as_json else shell_reading.reading(read, columns))
    return _EXIT[read.decision]


def _config(path: Path | None, profile: Profile | None) -> Config:
    config = read_config(path)
    return msgspec.structs.replace(config, profile=profile) if profile else config


def _place(policy: Policy, project: str | None, cwd: Path | None) -> Place:
    if project is not None and project not in policy.projects:
        known = ", ".join(map(plain, policy.projects)) or "none"
        raise WrongUsage(f"unknown project {project!r}; configured projects: {known}")
    return Place(project=project, cwd=None if cwd is None else str(cwd.absolute()))


def _command(given: str) -> str:
    if not given and sys.stdin.isatty():
        raise WrongUsage("give a command in quotes, such as: safetyd shell 'git status'")
    said = given or sys.stdin.buffer.read(MAX_TEXT_BYTES + 1).decode("utf-8", "replace")
    if len(said.encode("utf-8", "replace")) > MAX_TEXT_BYTES:
        raise WrongUsage(f"the command is longer than {MAX_TEXT_BYTES} bytes, the limit for agents")
    if not said.strip():
        raise WrongUsage("the command is empty")
    return said.removesuffix("\n")


def _print_table(table: Table, name: str, *, as_json: bool) -> int:
    columns = shutil.get_terminal_size().columns
    if not name:
        told = document(program_table.by_effect(table))
        click.echo(told if as_json else program_table.all_programs(table, columns))
        return 0
    program = table.find(name)
    if program is None:
        error = f"unknown program {plain(name)}: every use of it needs approval"
        raise Failure(f"{error}. To add it, see `safetyd docs shell`", "not_found")
    told = document(program_table.facts(program))
    click.echo(told if as_json else program_table.one_program(program, columns))
    return 0


def _print_corpus(
    trial: CommandTrial, path: Path, place: Place, *, verbose: bool, as_json: bool
) -> int:
    measured = measure(trial, load_corpus(path), place)
    click.echo(document(measured) if as_json else shell_reading.measured(measured, verbose=verbose))
    return BLOCKED if measured.dangerous_allowed.count else 0
