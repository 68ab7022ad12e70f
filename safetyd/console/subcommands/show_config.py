"""`safetyd config` checks and prints the configuration."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from safetyd.console.daemon_config import read_config
from safetyd.console.help_page import group
from safetyd.console.options import data_dir_option, json_option
from safetyd.console.terminal_text import document, plain, several
from safetyd.core.guards.projects import ProjectConfig
from safetyd.daemon.config import Config
from safetyd.daemon.config_warnings import config_warnings, missing_secrets
from safetyd.daemon.project_files import with_files
from safetyd.host import own_config

Table = Mapping[str, object]
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+\Z")
_WIDTH: Final = 90
MAX_WARNING_CHARS: Final = 2000
file_argument = click.argument(
    "file",
    required=False,
    type=click.Path(path_type=Path),
    help="A TOML file.",
)


def encode(table: Table) -> str:
    return "\n".join(_lines(table, ())).strip() + "\n"


def _lines(table: Table, path: tuple[str, ...]) -> Iterator[str]:
    values = {name: value for name, value in table.items() if not isinstance(value, Mapping)}
    if path and (values or not table):
        yield f"\n[{'.'.join(map(_key, path))}]"
    for name, value in values.items():
        if value is not None:
            yield f"{_key(name)} = {as_toml(value)}"
    for name, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from _lines(value, (*path, name))


def as_toml(value: object) -> str:
    """Return a value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, Mapping):
        given = ((name, inner) for name, inner in value.items() if inner is not None)
        return "{ " + ", ".join(f"{_key(name)} = {as_toml(inner)}" for name, inner in given) + " }"
    if isinstance(value, Sequence):
        return _array([as_toml(item) for item in value])
    return repr(value)


def _array(items: Sequence[str]) -> str:
    line = f"[{', '.join(items)}]"
    if len(line) <= _WIDTH:
        return line
    return "\n".join(("[", *(f"  {item}," for item in items), "]"))


def _string(text: str) -> str:
    if "\\" in text and text.isascii() and text.isprintable() and "'" not in text:
        return f"'{text}'"
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return char if char.isprintable() else f"\\U{ord(char):08x}"


def _key(name: str) -> str:
    return name if _BARE.match(name) else _string(name)


@group()
def config() -> None:
    """Check and print the configuration.

    For example:
      safetyd config check
      safetyd config show
    """


@config.command("check")
@file_argument
@data_dir_option
@json_option
def check(file: Path | None, directory: Path, *, as_json: bool) -> None:
    """Check a configuration file and print every error in it.

    A channel whose Python package is not installed is an error, too. It also warns about missing
    secret files and project folders. Without FILE, it checks safetyd.toml in the data directory.

    For example:
      safetyd config check
      safetyd config check new.toml && cp new.toml /etc/safetyd/safetyd.toml
    """
    file = file or own_config(directory)
    loaded = read_config(file, to_run=True)
    missing = missing_secrets(loaded, directory)
    warnings = config_warnings(loaded, directory)
    said = f"{file}: OK" if file else "No configuration file; the defaults are used."
    if missing:
        said = f"{file}: OK, but {several(len(missing), 'secret')} cannot be read"
    if as_json:
        click.echo(document({"ok": True, "warnings": warnings} if warnings else {"ok": True}))
        return
    click.echo(said)
    for warning in warnings:
        click.echo(f"safetyd: warning: {plain(warning, MAX_WARNING_CHARS)}", err=True)


@config.command("show")
@file_argument
@json_option
def show(file: Path | None, *, as_json: bool) -> None:
    """Print every setting of a configuration file, including defaults.

    Without FILE, this prints the defaults. A running daemon may use other settings, if it was
    started with another file or has not reloaded this one.

    For example:
      safetyd config show safetyd.toml
      safetyd config show --json | jq .budget
    """
    loaded = read_config(file)
    settings, projects = msgspec.to_builtins(loaded), with_files(loaded.policy()).projects
    if as_json:
        settings["projects"] = msgspec.to_builtins(projects)
        click.echo(document(settings))
        return
    click.echo(encode(settings), nl=False)
    if loaded.web.port is None:
        click.echo(f"# web.port is not set: {loaded.web.first_port}, or the next free port")
    for name, project in projects.items():
        for line in _from_file(name, project):
            click.echo(f"# {plain(line, MAX_WARNING_CHARS)}")


@config.command("schema")
def schema() -> None:
    """Print the JSON Schema of the configuration, for editors.

    For example:
      safetyd config schema > safetyd.schema.json
    """
    click.echo(document(msgspec.json.schema(Config), indent=2))


def _from_file(name: str, project: ProjectConfig) -> Iterator[str]:
    """Yield the settings that the project file adds."""
    if project.from_file is not None:
        yield f"{project.file} adds these restrictions to [projects.{name}]:"
        yield from filter(None, encode(msgspec.to_builtins(project.from_file)).splitlines())
    elif project.file_broken:
        why = f"{project.file}: {project.file_broken}"
        yield f"everything in [projects.{name}] needs approval: {why}"
