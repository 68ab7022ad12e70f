"""`safetyd config`: whether a file is right, and what it comes to."""

from pathlib import Path

import click
import msgspec

from safetyd.config import Config, ConfigError, load
from safetyd.console.failure import Failure
from safetyd.console.options import json_option
from safetyd.console.plain import document
from safetyd.console.toml import encode

file_argument = click.argument("file", required=False, type=click.Path(path_type=Path))


@click.group()
def config() -> None:
    """Check and show configuration."""


@config.command("check")
@file_argument
@json_option
def check(file: Path | None, *, as_json: bool) -> None:
    """Name every mistake in FILE."""
    _loaded(file)
    said = f"{file} is right." if file else "No file was given; the defaults are right."
    click.echo(document({"ok": True}) if as_json else said)


@config.command("show")
@file_argument
@json_option
def show(file: Path | None, *, as_json: bool) -> None:
    """Print every setting that a start with FILE would use; without FILE the defaults.

    A running daemon may have been started with another file, or not have read this one yet.
    """
    settings = msgspec.to_builtins(_loaded(file))
    click.echo(document(settings) if as_json else encode(settings), nl=as_json)


@config.command("schema")
def schema() -> None:
    """Print the JSON Schema of the file, for editors."""
    click.echo(document(msgspec.json.schema(Config), indent=2))


def _loaded(file: Path | None) -> Config:
    try:
        return load(file)
    except ConfigError as exc:
        raise Failure(str(exc), "config", exc.errors) from exc
