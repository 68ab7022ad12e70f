"""`safetyd init`: write a configuration for this machine."""

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
from safetyd.console.locations import Location, make_private, own_command, running
from safetyd.console.operator_connection import ask as ask_daemon
from safetyd.console.options import data_dir_option, json_option
from safetyd.console.render.layout import indented
from safetyd.console.render.profiles import PASSES
from safetyd.console.setup.config_text import config_text, project_name
from safetyd.console.setup.setup_questions import NONE, TOLD, UNCONFINED, Answers, ask, proposed
from safetyd.console.subcommands.hold_agents import RELOAD_S, said_of_reload
from safetyd.console.terminal_text import document, plain
from safetyd.daemon.config import Config, ConfigError, parse
from safetyd.host import CONFIG, own_config, secret_directories, write_whole
from safetyd.notify.desktop.channel import DesktopConfig
from safetyd.notify.email.channel import EmailConfig
from safetyd.operators.contract.hold_contract import ReloadCommand

MAX_PATH_CHARS: Final = 4096
_FROM_KEYBOARD: Final = "install -m 600 /dev/stdin"


@command()
@click.argument(
    "file",
    required=False,
    type=click.Path(path_type=Path),
    help="The file to write. Default: safetyd.toml in the data directory.",
)
@click.option("--yes", is_flag=True, help="Use the defaults instead of asking.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@data_dir_option
@json_option
def init(file: Path | None, directory: Path, *, yes: bool, force: bool, as_json: bool) -> None:
    """Ask three questions and write a configuration for this machine.

    `safetyd run` uses safetyd.toml in the data directory by default. The configuration contains no
    secrets: it names files that contain them.

    For example:
      safetyd init
      safetyd init --yes my.toml
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
        if not yes and _reloads(place):
            _offer_reload(place)


class ConfigPlace(NamedTuple):
    """The path of the configuration file, and the data directory of its daemon."""

    path: Path
    data_dir: Path

    @property
    def own(self) -> bool:
        """Return True if `safetyd run` uses this file by default."""
        return self.path == self.data_dir / CONFIG

    def command(self, words: str, option: str = "") -> str:
        """Return a command line, with `option` and the file unless the file is the default."""
        named = "" if self.own else f" {option}{shlex.quote(str(self.path))}"
        return f"{own_command()} {words}{named}{naming(self.data_dir)}"

    def refuse_existing(self) -> None:
        if os.path.lexists(self.path):
            raise Failure(
                f"{self.path} already exists. Choose another file, or overwrite it with "
                f"`{self.command('init')} --force`",
                "exists",
            )


def _answers(*, yes: bool) -> Answers:
    if yes:
        return proposed()
    if not sys.stdin.isatty():
        raise WrongUsage(
            "init needs a terminal for its questions. Use --yes to accept the defaults"
        )
    return ask(proposed())


def _write(place: ConfigPlace, text: str, *, force: bool) -> Config:
    """Write the file if it passes the checks of `safetyd config check`."""
    try:
        config = parse(text, str(place.path))
    except ConfigError as exc:
        raise Failure(str(exc), "config", exc.errors) from exc
    make_private(place.data_dir)

    def look(_fresh: Path) -> None:
        if not force:
            place.refuse_existing()  # it may have been created while the questions were answered

    with using_file(place.path, "write"):
        write_whole(place.path.resolve(), text.encode(), look=look)
    return config


def _steps(place: ConfigPlace, config: Config) -> Iterator[str]:
    """Yield the commands to run next."""
    telling = config.notifications
    if any(telling.missing_secrets(secret_directories(place.data_dir))):
        secret = place.data_dir / telling.of(EmailConfig).password_file
        yield f"{_FROM_KEYBOARD} {shlex.quote(str(secret))}"
    if _reloads(place):
        yield f"{own_command()} reload{naming(place.data_dir)}"
    else:
        yield place.command("run", "--config ")


def _reloads(place: ConfigPlace) -> bool:
    """Return True if a daemon is running that uses this file by default."""
    return running(place.data_dir) is not None and place.path == own_config(place.data_dir)


def _offer_reload(place: ConfigPlace) -> None:
    """Reload the running daemon if the operator wants that, so that the new rules apply."""
    if click.confirm("Reload the running daemon now?", default=False, err=True):
        reply = ask_daemon(Location(data_dir=place.data_dir), ReloadCommand(), patience_s=RELOAD_S)
        click.echo(said_of_reload(reply))


def _beside(place: ConfigPlace, config: Config) -> Iterator[str]:
    """Yield the commands to run in another terminal while the daemon runs."""
    telling, there = config.notifications, naming(place.data_dir)
    if telling.of(EmailConfig).enabled:
        yield f"{own_command()} notify test{there}"
    if telling.of(DesktopConfig).helper:
        yield f"{own_command()} desktop{there}"


def _facts(place: ConfigPlace, answers: Answers) -> dict[str, object]:
    root = answers.root
    project = None
    if root is not None:
        checks = list(answers.checks)
        project = {"name": project_name(root), "root": str(root), "checks": checks}
    return {
        "file": str(place.path),
        "profile": answers.profile,
        "project": project,
        "told": answers.told,
    }


def _project(root: Path | None) -> str:
    if root is None:
        return f"{NONE}: {UNCONFINED}"
    return f"{project_name(root)} in {plain(root, MAX_PATH_CHARS)}"


def _told(
    place: ConfigPlace, answers: Answers, steps: Sequence[str], beside: Sequence[str]
) -> Iterator[str]:
    yield f"Wrote {plain(place.path, MAX_PATH_CHARS)}:"
    root = answers.root
    yield from indented(
        (
            ("profile", f"{answers.profile}: {PASSES[answers.profile]}"),
            ("project", _project(root)),
            *([("checks", ", ".join(answers.checks))] if answers.checks else ()),
            ("notify", TOLD[answers.told]),
        )
    )
    if pid := running(place.data_dir):
        until = "you reload it" if _reloads(place) else "you restart it"
        yield f"The running daemon (pid {pid}) uses the old configuration until {until}."
    yield "\nNext steps:"
    yield from (f"  {plain(step, MAX_PATH_CHARS)}" for step in steps)
    if steps[0].startswith(_FROM_KEYBOARD):
        yield "The first command reads the password: type it, then press Enter and Ctrl-D."
    if beside:
        yield "And in another terminal:"
        yield from (f"  {plain(step, MAX_PATH_CHARS)}" for step in beside)
