"""The options that many commands share."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from safetyd.console.failure import WrongUsage
from safetyd.console.locations import PREFIX, Location, data_dir
from safetyd.operators.contract.question import Call, summary_of
from safetyd.operators.replies import Done

R = TypeVar("R")
C = TypeVar("C", bound=click.Command)

SENT: Final[dict[click.Command, type[Call[Done]]]] = {}  # by the commands that send them

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
data_dir_option = click.option("--data-dir", "directory", help="Where the daemon keeps its files.")
config_option = click.option(
    "--config", "config_path", type=click.Path(path_type=Path), help="The daemon's TOML file."
)


def sends(kind: type[Call[Done]]) -> Callable[[C], C]:
    """Begin the help of a command with that of the question or command that it sends."""

    def declared(command: C) -> C:
        command.help = "\n\n".join(filter(None, (summary_of(kind), command.help)))
        SENT[command] = kind
        return command

    return declared


def reaches_daemon(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command the options that find a daemon, as one `location`."""

    @wraps(command)
    def placed(directory: str | None, **options: Any) -> R:
        names = ("url", "key_file", "operator", "prefix")
        found = {name: options.pop(name, None) for name in names}
        location = Location(data_dir=data_dir(directory), **found)
        return command(location=location, **options)

    for option in reversed(_OPTIONS):
        placed = option(placed)
    return placed


def says_why(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command its `reason`, as a last word or as an option: in a hurry both are typed."""

    @click.argument("reason", default="")
    @click.option("--reason", "why", default="", help="The same as REASON: why, for the record.")
    @wraps(command)
    def said(reason: str, why: str, **options: Any) -> R:
        if reason and why:
            raise WrongUsage("the reason is given twice: leave one of them out")
        return command(reason=reason or why, **options)

    return said


_OPTIONS = (
    click.option("--url", help="The daemon's bus, such as nats://127.0.0.1:4222."),
    data_dir_option,
    click.option("--key-file", type=click.Path(path_type=Path), help="The nkey seed to use."),
    click.option("--operator", metavar="NAME", help="Who you are, if the key file does not say."),
    click.option("--prefix", default=PREFIX, show_default=True, help="The daemon's bus.prefix."),
)
