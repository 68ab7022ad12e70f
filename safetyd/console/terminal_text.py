"""Text for a terminal and for programs. What agents wrote can neither move the cursor nor hide."""

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


def plain(text: object, limit: int = MAX_CHARS) -> str:
    """Return one line of at most about `limit` characters in which everything can be seen."""
    said = str(text)
    shown = visible(said[:limit])
    if len(said) <= limit and len(shown) <= limit:
        return shown
    return f"{shown[:limit]}… ({len(said)} characters)"


def columns() -> int:
    """Return how wide the output may be: as the terminal, or without limit if there is none."""
    unlimited = 0 if "COLUMNS" in os.environ or sys.stdout.isatty() else UNLIMITED
    return unlimited or shutil.get_terminal_size().columns


def several(count: int, noun: str) -> str:
    """Return a number of things, one of them without an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def echo(answer: Answer, render: Callable[[Answer], str], *, as_json: bool) -> None:
    """Print an answer, for programs or for people."""
    click.echo(document(answer) if as_json else render(answer))


def document(content: object, *, indent: int | None = None) -> str:
    """Return JSON in ASCII: for programs, and harmless if a person looks at it."""
    text = json.dumps(msgspec.json.decode(msgspec.json.encode(content)), indent=indent)
    return text.replace("\x7f", "\\u007f")
