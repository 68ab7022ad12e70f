"""Text for terminals and programs. Control and invisible characters of agents are escaped."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from typing import Final, TypeVar

import click
import msgspec

from safetyd.core.text.visible_text import visible

Answer = TypeVar("Answer")

MAX_CHARS: Final = 500
UNLIMITED: Final = 100_000
# `safetyd run` prints this last, so it also means that the daemon is ready.
CTRL_C: Final = "Press Ctrl-C to stop."


def plain(text: object, limit: int = MAX_CHARS) -> str:
    """Return one line of about `limit` characters at most, in which every character is visible."""
    said = str(text)
    shown = visible(said[:limit])
    if len(said) <= limit and len(shown) <= limit:
        return shown
    return f"{shown[:limit]}… ({len(said)} characters)"


def columns() -> int:
    """Return the width of the terminal, or `UNLIMITED` if the output is not a terminal."""
    unlimited = 0 if "COLUMNS" in os.environ or sys.stdout.isatty() else UNLIMITED
    return unlimited or shutil.get_terminal_size().columns


def several(count: int, noun: str) -> str:
    """Return a count and its noun: 1 request, 2 requests."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def echo(answer: Answer, render: Callable[[Answer], str], *, as_json: bool) -> None:
    """Print an answer as JSON or as text."""
    click.echo(document(answer) if as_json else render(answer))


def document(content: object, *, indent: int | None = None) -> str:
    """Return JSON in ASCII, without control characters."""
    text = json.dumps(msgspec.json.decode(msgspec.json.encode(content)), indent=indent)
    return text.replace("\x7f", "\\u007f")
