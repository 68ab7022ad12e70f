"""The options that many commands share, and commands that need no code of their own."""

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
    """Return the decorator that applies several, as if they were written one below the other."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def _data_dir(ctx: click.Context, _option: click.Parameter, given: str | None) -> Path:
    outer: Path | None = ctx.parent.params.get("directory") if ctx.parent and not given else None
    return outer or data_dir(given)


def _data_dir_option(**settings: Any) -> Decorator:
    about = "Where the daemon keeps its files."
    return click.option(
        "--data-dir", "directory", metavar="DIR", callback=_data_dir, help=about, **settings
    )


# Given before a subcommand, it counts for that too.
json_option: Decorator = click.option(
    "--json", "as_json", is_flag=True, callback=_json, help="Print JSON for programs."
)
data_dir_option = _data_dir_option()
config_option = click.option(
    "--config", "config_path", type=click.Path(path_type=Path), help="The daemon's TOML file."
)

_connection = partial(click.option, cls=SectionOption, section="Connection")
_connected = together(
    _connection("--url", help="The daemon's bus, such as nats://127.0.0.1:4222."),
    _data_dir_option(cls=SectionOption, section="Connection"),
    _connection("--key-file", type=click.Path(path_type=Path), help="The nkey seed to use."),
    _connection("--operator", metavar="NAME", help="Who you are, if the key file does not say."),
    _connection("--prefix", default=PREFIX, show_default=True, help="The daemon's bus.prefix."),
)


def reaches_daemon(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command the options that find a daemon, as one `location`."""

    @wraps(command)
    def placed(directory: Path, **options: Any) -> R:
        names = ("url", "key_file", "operator", "prefix")
        found = {name: options.pop(name, None) for name in names}
        return command(location=Location(data_dir=directory, **found), **options)

    return _connected(placed)


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


def call_command(
    name: str,
    call: type[Call[Answer]],
    render: Callable[[Answer], str],
    *parameters: Decorator,
    about: str = "",
    patience_s: float = ANSWER_S,
    below: Group | None = None,
) -> Command:
    """Return a command that sends `call`, with its parameters as fields, and prints the answer."""

    def run(location: Location, *, as_json: bool, **fields: Any) -> None:
        echo(ask(location, call(**fields), patience_s=patience_s), render, as_json=as_json)

    placed = together(*parameters, json_option, reaches_daemon)(run)
    made: Command = click.command(name, cls=Command, sends=call, help=about)(placed)
    if below is not None:
        below.add_command(made)
    return made
