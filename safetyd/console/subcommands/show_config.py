"""`safetyd config`: whether a file is right, and what it comes to, also as TOML."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from safetyd.console.failure import Failure
from safetyd.console.options import json_option
from safetyd.console.terminal_text import document, plain
from safetyd.core.guards.projects import ProjectConfig
from safetyd.core.policy import Policy
from safetyd.daemon.config import Config, ConfigError, load
from safetyd.daemon.project_files import with_files
from safetyd.notify.address_book import warnings as telling_warnings

Table = Mapping[str, object]
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+\Z")
_WIDTH: Final = 90


def encode(table: Table) -> str:
    return "\n".join(_lines(table, ())).strip() + "\n"


def _lines(table: Table, path: tuple[str, ...]) -> Iterator[str]:
    values = {name: value for name, value in table.items() if not isinstance(value, Mapping)}
    if path and (values or not table):
        yield f"\n[{'.'.join(map(_key, path))}]"
    for name, value in values.items():
        if value is not None:
            yield f"{_key(name)} = {_value(value)}"
    for name, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from _lines(value, (*path, name))


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, Mapping):
        given = ((name, inner) for name, inner in value.items() if inner is not None)
        return "{ " + ", ".join(f"{_key(name)} = {_value(inner)}" for name, inner in given) + " }"
    if isinstance(value, Sequence):
        return _array([_value(item) for item in value])
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


MAX_WARNING_CHARS: Final = 2000
file_argument = click.argument("file", required=False, type=click.Path(path_type=Path))


@click.group()
def config() -> None:
    """Check and show configuration."""


@config.command("check")
@file_argument
@json_option
def check(file: Path | None, *, as_json: bool) -> None:
    """Name every mistake in FILE."""
    loaded = _loaded(file)
    warnings = [*_warnings(with_files(loaded.policy())), *telling_warnings(loaded.tables)]
    said = f"{file} is right." if file else "No file was given; the defaults are right."
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
    """Print every setting that a start with FILE would use; without FILE the defaults.

    A running daemon may have been started with another file, or not have read this one yet.
    """
    loaded = _loaded(file)
    settings, projects = msgspec.to_builtins(loaded), with_files(loaded.policy()).projects
    if as_json:
        settings["projects"] = msgspec.to_builtins(projects)
        click.echo(document(settings))
        return
    click.echo(encode(settings), nl=False)
    if loaded.web.port is None:
        click.echo(f"# web.port is not set: {loaded.web.first_port}, or another if that is taken")
    for name, project in projects.items():
        for line in _from_file(name, project):
            click.echo(f"# {plain(line, MAX_WARNING_CHARS)}")


@config.command("schema")
def schema() -> None:
    """Print the JSON Schema of the file, for editors."""
    click.echo(document(msgspec.json.schema(Config), indent=2))


def _warnings(policy: Policy) -> Iterator[str]:
    for name, project in policy.projects.items():
        if project.file_broken:
            key = f"projects.{name}.file"
            yield f"{key}: {project.file}: {project.file_broken}; so everything in {name} is asked"


def _from_file(name: str, project: ProjectConfig) -> Iterator[str]:
    """Yield what a project's file adds, which is not part of the configuration."""
    if project.from_file is not None:
        yield f"[projects.{name}] is tightened by {project.file}:"
        yield from filter(None, encode(msgspec.to_builtins(project.from_file)).splitlines())
    elif project.file_broken:
        yield f"everything in [projects.{name}] is asked: {project.file}: {project.file_broken}"


def _loaded(file: Path | None) -> Config:
    try:
        return load(file)
    except ConfigError as exc:
        raise Failure(str(exc), "config", exc.errors) from exc
