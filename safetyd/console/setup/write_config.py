"""`safetyd init`: a commented configuration for this machine, after three questions."""

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click

from safetyd.client.discovery import naming
from safetyd.console.failure import Failure, WrongUsage, using_file
from safetyd.console.help_page import command
from safetyd.console.locations import make_private, own_command, running
from safetyd.console.options import data_dir_option, json_option
from safetyd.console.render.layout import indented
from safetyd.console.render.profiles import PASSES
from safetyd.console.setup.config_text import config_text, project_name
from safetyd.console.setup.setup_questions import NONE, TOLD, Answers, ask, proposed
from safetyd.console.terminal_text import document, plain
from safetyd.daemon.config import Config, ConfigError, parse
from safetyd.host import CONFIG, own_config, secret_directories, write_whole
from safetyd.notify.desktop.channel import DesktopConfig
from safetyd.notify.email.channel import EmailConfig

MAX_PATH_CHARS: Final = 4096
_FROM_KEYBOARD: Final = "install -m 600 /dev/stdin"


@command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Ask nothing and take what would be proposed.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@data_dir_option
@json_option
def init(file: Path | None, directory: Path, *, yes: bool, force: bool, as_json: bool) -> None:
    """Write a commented configuration for this machine, after three questions.

    Without FILE it is safetyd.toml in the data directory, which `safetyd run` reads by itself. No
    secret is written: what needs one names a file of its own.
    """
    place = ConfigPlace((file or directory / CONFIG).absolute(), directory)
    if not force:
        place.refuse_existing()
    answers = _answers(yes=yes)
    config = _write(place, config_text(answers), force=force)
    steps, beside = list(_steps(place, config)), list(_beside(place, config))
    if as_json:
        click.echo(document({"ok": True, **_facts(place, answers), "next": steps + beside}))
    else:
        click.echo("\n".join(_told(place, answers, steps, beside)))


class ConfigPlace(NamedTuple):
    """Where the file goes, and the data directory of the daemon that it is for."""

    path: Path
    data_dir: Path

    @property
    def own(self) -> bool:
        """Say whether a start finds the file by itself."""
        return self.path == self.data_dir / CONFIG

    def command(self, words: str, option: str = "") -> str:
        """Return what to type; `option` comes before the file, where the file has to be named."""
        named = "" if self.own else f" {option}{shlex.quote(str(self.path))}"
        return f"{own_command()} {words}{named}{naming(self.data_dir)}"

    def refuse_existing(self) -> None:
        if os.path.lexists(self.path):
            raise Failure(
                f"{self.path} is there already, and stays as it is: name another file, or write "
                f"over it with `{self.command('init')} --force`",
                "exists",
            )


def _answers(*, yes: bool) -> Answers:
    if yes:
        return proposed()
    if not sys.stdin.isatty():
        raise WrongUsage("init asks at a terminal, and this is none: --yes takes what it proposes")
    return ask(proposed())


def _write(place: ConfigPlace, text: str, *, force: bool) -> Config:
    """Put the file in its place if it is right, as `safetyd config check` would say."""
    try:
        config = parse(text, str(place.path))
    except ConfigError as exc:
        raise Failure(str(exc), "config", exc.errors) from exc
    make_private(place.data_dir)

    def look(_fresh: Path) -> None:
        if not force:
            place.refuse_existing()  # it may have come while somebody thought about the answers

    with using_file(place.path, "written"):
        write_whole(place.path.resolve(), text.encode(), look=look)
    return config


def _steps(place: ConfigPlace, config: Config) -> Iterator[str]:
    """Yield what to type next."""
    telling = config.notifications
    if any(telling.missing_secrets(secret_directories(place.data_dir))):
        secret = place.data_dir / telling.of(EmailConfig).password_file
        yield f"{_FROM_KEYBOARD} {shlex.quote(str(secret))}"
    if _reloads(place):
        yield f"{own_command()} reload{naming(place.data_dir)}"
    else:
        yield place.command("run", "--config ")


def _reloads(place: ConfigPlace) -> bool:
    """Say whether a daemon runs that reads this file, if it was not started with another."""
    return running(place.data_dir) is not None and place.path == own_config(place.data_dir)


def _beside(place: ConfigPlace, config: Config) -> Iterator[str]:
    """Yield what to type in another terminal while the daemon runs."""
    telling, there = config.notifications, naming(place.data_dir)
    if telling.of(EmailConfig).enabled:
        yield f"{own_command()} notify test{there}"
    if telling.of(DesktopConfig).helper:
        yield f"{own_command()} desktop{there}"


def _facts(place: ConfigPlace, answers: Answers) -> dict[str, object]:
    root = answers.root
    project = {"name": project_name(root), "root": str(root)} if root else None
    return {
        "file": str(place.path),
        "profile": answers.profile,
        "project": project,
        "told": answers.told,
    }


def _told(
    place: ConfigPlace, answers: Answers, steps: Sequence[str], beside: Sequence[str]
) -> Iterator[str]:
    yield f"Written to {plain(place.path, MAX_PATH_CHARS)}:"
    root = answers.root
    yield from indented(
        (
            ("profile", f"{answers.profile}: {PASSES[answers.profile]}"),
            ("project", f"{project_name(root)} in {plain(root, MAX_PATH_CHARS)}" if root else NONE),
            ("told", TOLD[answers.told]),
        )
    )
    if pid := running(place.data_dir):
        until = "then" if _reloads(place) else "it is started again"
        yield f"The safetyd with pid {pid} goes on as it was until {until}."
    yield "\nType next:"
    yield from (f"  {plain(step, MAX_PATH_CHARS)}" for step in steps)
    if steps[0].startswith(_FROM_KEYBOARD):
        yield "The first reads the password: type it, then Enter and Ctrl-D."
    if beside:
        yield "And in another terminal:"
        yield from (f"  {plain(step, MAX_PATH_CHARS)}" for step in beside)
