"""`safetyd man`: the manual pages.

The page of the command is generated from the help of all commands, the page of the configuration
from the shipped file that has all settings.
"""

import inspect
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from safetyd import __version__
from safetyd.console.command_table import GROUPS
from safetyd.console.failure import using_file
from safetyd.console.help_page import Command, command
from safetyd.console.shipped_files import ALL_SETTINGS, shipped

COMMAND: Final = "safetyd"
SETTINGS: Final = "safetyd.toml"
FILES: Final = {COMMAND: "safetyd.1", SETTINGS: "safetyd.toml.5"}

_VARIABLES: Final = {
    "SAFETYD_DATA_DIR": "The data directory, like --data-dir.",
    "SAFETYD_URL": "The address of the bus, like --url.",
    "SAFETYD_KEY_FILE": "The file with the nkey seed, like --key-file.",
    "SAFETYD_ENABLED": "If false, every proposal is blocked.",
    "NO_COLOR": "If set, output has no colours.",
    "TZ": "The time zone for input and output. Default: the zone of the machine.",
}
_EXIT_CODES: Final = {
    "0": "done or allowed",
    "1": "blocked or failed",
    "2": "wrong usage",
    "3": "needs approval",
    "4": "no daemon answers",
}


@command()
@click.argument(
    "name",
    metavar="[PAGE]",
    type=click.Choice(tuple(FILES)),
    default=COMMAND,
    help=f"{COMMAND}, the commands (default), or {SETTINGS}, the settings.",
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    help=f"Write {' or '.join(FILES.values())} to this directory.",
)
def man(name: str, directory: Path | None) -> None:
    """Show a manual page, or print it as troff if standard output is not a terminal.

    For example:
      safetyd man
      safetyd man safetyd.toml
      safetyd man --directory ~/.local/share/man/man1
    """
    root = click.get_current_context().find_root().command
    text = settings_page()
    if name == COMMAND and isinstance(root, click.Group):
        text = page(root)
    if directory is None:
        if not (sys.stdout.isatty() and _shown(text)):
            click.echo(text, nl=False)
        return
    path = directory / FILES[name]
    with using_file(path, "write"):
        directory.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _shown(text: str) -> bool:
    """Show a page with `man`; return False if that is not possible."""
    program = shutil.which("man")
    if program is None:
        return False
    done = subprocess.run([program, "-l", "-"], input=text, text=True, check=False)  # noqa: S603
    return done.returncode == 0


def page(root: click.Group, date: str = "") -> str:
    """Return the manual page of the command as troff."""
    return _troff("SAFETYD 1", date, "User Commands", _lines(root))


def settings_page(date: str = "") -> str:
    """Return the manual page of the configuration file as troff."""
    text = shipped(ALL_SETTINGS).read_text()
    return _troff("SAFETYD.TOML 5", date, "File Formats", _settings(text))


def _troff(title: str, date: str, manual: str, lines: Iterator[str]) -> str:
    first = f'.TH {title} "{date}" "safetyd {__version__}" "{manual}"'
    return "\n".join((first, *lines)) + "\n"


def _settings(text: str) -> Iterator[str]:
    """Yield the comment at the top of a configuration, then a section for each of its parts."""
    opening, *parts = (part.splitlines() for part in text.strip().split("\n\n"))
    about, *more = " ".join(line.lstrip("# ") for line in opening).split(". ", 1)
    yield ".SH NAME"
    yield f"safetyd.toml \\- {_text(about.partition(': ')[2])}"
    yield ".SH DESCRIPTION"
    yield from _prose(more)
    yield ".SH SETTINGS"
    for number, lines in enumerate(parts):
        yield from ([".PP"] if number else [])
        yield from (".nf", *map(_text, lines), ".fi")
    yield '.SH "SEE ALSO"'
    yield "safetyd(1)"


def _lines(root: click.Group) -> Iterator[str]:
    context = click.Context(root, info_name="safetyd", **root.context_settings)
    about, *more = _paragraphs(root)
    yield ".SH NAME"
    yield f"safetyd \\- {_text(about)}"
    yield ".SH SYNOPSIS"
    yield f".B {_text(context.command_path)}"
    yield "[options] COMMAND [ARGS]..."
    yield ".SH DESCRIPTION"
    yield from _prose([about, *more])
    yield ".SH OPTIONS"
    yield from _options(root, context)
    yield from _examples(root)
    for title, group in GROUPS.items():
        yield f'.SH "{title.upper()}"'
        for name in group:
            yield from _command(root, context, name)
    yield ".SH ENVIRONMENT"
    yield from _tagged(_VARIABLES)
    yield '.SH "EXIT STATUS"'
    yield from _tagged(_EXIT_CODES)
    yield '.SH "SEE ALSO"'
    yield "safetyd.toml(5)"


def _command(group: click.Group, parent: click.Context, name: str) -> Iterator[str]:
    """Yield the lines about a command, then those about its subcommands."""
    command = group.get_command(parent, name)
    if command is None or command.hidden:
        return
    context = click.Context(command, parent=parent, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f'.SS "{_text(context.command_path)} {_text(usage)}"'
    yield from _prose(_paragraphs(command))
    yield from _options(command, context)
    yield from _examples(command)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            yield from _command(command, context, below)


def _paragraphs(command: click.Command) -> list[str]:
    said = inspect.cleandoc(command.help or "").partition("\f")[0]
    return [part for part in said.split("\n\n") if part.strip()]


def _prose(paragraphs: list[str]) -> Iterator[str]:
    """Yield paragraphs that follow a heading."""
    for number, paragraph in enumerate(paragraphs):
        yield from ([".PP"] if number else [])
        lines = paragraph.splitlines()
        if lines[0].strip() == "\b":
            yield from (".nf", *map(_text, lines[1:]), ".fi")
        else:
            yield from map(_text, lines)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    below = context.parent is not None
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Argument) or (below and parameter.name == "help"):
            continue
        if record := parameter.get_help_record(context):
            yield from _tagged({record[0]: record[1]})


def _examples(command: click.Command) -> Iterator[str]:
    if isinstance(command, Command) and command.examples:
        yield from (".PP", "Examples:", ".nf", *map(_text, command.examples), ".fi")


def _tagged(facts: dict[str, str]) -> Iterator[str]:
    for name, about in facts.items():
        yield ".TP"
        yield f"\\fB{_text(name)}\\fR"
        yield _text(about)


def _text(said: str) -> str:
    """Return a line with all characters escaped that troff would interpret."""
    line = " ".join(said.split("\n")).replace("\\", "\\e").replace("-", "\\-")
    line = line.replace('"', "\\(dq")
    line = "".join(sign if sign.isascii() else f"\\[u{ord(sign):04X}]" for sign in line)
    return f"\\&{line}" if line[:1] in {".", "'"} else line
