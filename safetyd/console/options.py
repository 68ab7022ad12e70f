"""Options that many commands share, and commands that only send one message."""

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from safetyd.console.failure import WrongUsage
from safetyd.console.help_page import Command, Group, SectionOption
from safetyd.console.locations import PREFIX, Location, data_dir
from safetyd.console.operator_connection import ANSWER_S, ask
from safetyd.console.terminal_text import echo
from safetyd.operators.contract.question import Call
from safetyd.operators.replies import Done

R = TypeVar("R")
Answer = TypeVar("Answer", bound=Done)
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _json(ctx: click.Context, option: click.Parameter, given: bool) -> bool:  # noqa: FBT001
    return given or bool(ctx.parent and ctx.parent.params.get(option.name or ""))


def together(*decorators: Decorator) -> Decorator:
    """Return a decorator that applies several decorators, the last one first."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def _data_dir(ctx: click.Context, _option: click.Parameter, given: str | None) -> Path:
    outer: Path | None = ctx.parent.params.get("directory") if ctx.parent and not given else None
    return outer or data_dir(given)


def _data_dir_option(**settings: Any) -> Decorator:
    about = "The data directory of the daemon."
    return click.option(
        "--data-dir", "directory", metavar="DIR", callback=_data_dir, help=about, **settings
    )


# If these options precede a subcommand, they apply to the subcommand too.
json_option: Decorator = click.option(
    "--json", "as_json", is_flag=True, callback=_json, help="Print JSON."
)
data_dir_option = _data_dir_option()
config_option = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help="The configuration file of the daemon.",
)

_connection = partial(click.option, cls=SectionOption, section="Connection")
_connected = together(
    _connection(
        "--url",
        metavar="URL",
        help="The address of the bus, such as nats://127.0.0.1:4222, or several with commas.",
    ),
    _data_dir_option(cls=SectionOption, section="Connection"),
    _connection("--key-file", type=click.Path(path_type=Path), help="Your key (an nkey seed)."),
    _connection(
        "--operator", metavar="NAME", help="Your name, if the key file is not named after you."
    ),
    _connection(
        "--prefix",
        default=PREFIX,
        show_default=True,
        metavar="PREFIX",
        help="The bus.prefix of the daemon.",
    ),
)


def reaches_daemon(command: Callable[..., R]) -> Callable[..., R]:
    """Add the connection options to a command. It gets them as one argument, `location`."""

    @wraps(command)
    def placed(directory: Path, **options: Any) -> R:
        names = ("url", "key_file", "operator", "prefix")
        found = {name: options.pop(name, None) for name in names}
        return command(location=Location(data_dir=directory, **found), **options)

    return _connected(placed)


def says_why(command: Callable[..., R]) -> Callable[..., R]:
    """Add `reason` to a command, both as the last argument and as an option."""

    @click.argument("reason", default="", help="Why, for the record.")
    @click.option("--reason", "why", default="", metavar="TEXT", help="The same as REASON.")
    @wraps(command)
    def said(reason: str, why: str, **options: Any) -> R:
        if reason and why:
            raise WrongUsage("give the reason once, as REASON or with --reason")
        return command(reason=reason or why, **options)

    return said


def also_named(name: str, other: str) -> Decorator:
    """Give a text option a second name, which the help does not show."""

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        @click.option(f"--{other}", "other_name", default="", hidden=True)
        @wraps(command)
        def named(other_name: str, **options: Any) -> R:
            if other_name and options[name]:
                raise WrongUsage(f"give --{name} or --{other}, not both")
            return command(**{**options, name: options[name] or other_name})

        return named

    return decorate


def call_command(
    name: str,
    call: type[Call[Answer]],
    render: Callable[[Answer], str],
    *parameters: Decorator,
    about: str = "",
    patience_s: float = ANSWER_S,
    below: Group | None = None,
) -> Command:
    """Return a command that sends a message and prints the answer.

    The parameters of the command become the fields of `call`.
    """

    def run(location: Location, *, as_json: bool, **fields: Any) -> None:
        echo(ask(location, call(**fields), patience_s=patience_s), render, as_json=as_json)

    placed = together(*parameters, json_option, reaches_daemon)(run)
    made: Command = click.command(name, cls=Command, sends=call, help=about)(placed)
    if below is not None:
        below.add_command(made)
    return made
