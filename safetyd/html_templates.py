"""Renders HTML templates: all values are escaped, and invisible characters are made visible.

Each package that renders HTML has its own `templates` folder.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from pickle import UnpicklingError
from typing import Final, Self, cast
from unicodedata import bidirectional

from jinja2 import (
    BytecodeCache,
    Environment,
    PackageLoader,
    StrictUndefined,
    Undefined,
    select_autoescape,
)
from jinja2.bccache import Bucket
from jinja2.utils import missing
from markupsafe import Markup, escape

from safetyd.core.text.time_words import in_utc
from safetyd.core.text.visible_text import pieces
from safetyd.host import write_whole

# All templates escape values, except plain-text templates.
ESCAPES = select_autoescape(
    enabled_extensions=(), disabled_extensions=("txt",), default_for_string=True, default=True
)


_LEFTWARDS: Final = frozenset({"R", "AL", "AN"})


class AbsentField(Undefined):
    """A field that is missing from an answer. It is rendered as an empty string."""

    __slots__ = ()

    def __new__(cls, _hint: object = None, obj: object = missing, **_: object) -> Self:
        kind = NameNotGiven if obj is missing else AbsentField
        return cast("Self", object.__new__(kind))


class NameNotGiven(StrictUndefined, AbsentField):
    """A variable that a template uses but did not get. Rendering it is an error."""

    __slots__ = ()


class CompiledTemplates(BytecodeCache):
    """Stores compiled templates in the package's `__pycache__`, if it is writable.

    Jinja uses a compiled template only for the same text and the same version of Jinja.
    """

    def __init__(self, package: str) -> None:
        self._directory = Path(str(files(package))) / "__pycache__"

    def load_bytecode(self, bucket: Bucket) -> None:
        try:
            with self._file(bucket).open("rb") as file:
                bucket.load_bytecode(file)
        except (OSError, EOFError, ValueError, UnpicklingError):  # missing or damaged
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        if sys.dont_write_bytecode:
            return
        with suppress(OSError):
            self._directory.mkdir(exist_ok=True)
            whole = bucket.bytecode_to_string()
            write_whole(self._file(bucket), whole, mode=0o644, suffix=f".{os.getpid()}")

    def _file(self, bucket: Bucket) -> Path:
        return self._directory / f"{bucket.key}.{sys.implementation.cache_tag}.jinja"


def environment(package: str, begin: str = "", **filters: Callable[..., object]) -> Environment:
    """Return an environment for the templates of a package whose names start with `begin`.

    A missing variable is an error. A missing field of an answer is rendered as an empty string.
    """
    made = Environment(
        loader=PackageLoader(package),
        autoescape=ESCAPES,  # noqa: S701 - of plain text only
        undefined=AbsentField,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        bytecode_cache=CompiledTemplates(package),
    )
    made.filters |= {"seen": seen, "coded": coded, "exact": in_utc, **filters}
    # Load all now, so that rendering reads no files and an upgrade does not mix versions.
    for name in made.list_templates(filter_func=lambda name: name.startswith(begin)):
        made.get_template(name)
    return made


def seen(text: object) -> Markup:
    """Return a text as HTML in which every character is visible, even direction marks."""
    parts = (
        f'<span class="odd">{escape(part)}</span>' if hidden else _isolated(part)
        for part, hidden in pieces(str(text))
    )
    # Joined as strings, because there may be very many parts. Each is already escaped.
    return Markup("".join(parts))  # noqa: S704


def _isolated(text: str) -> str:
    """Return escaped HTML in which right-to-left words do not reorder the text next to them."""
    if text.isascii():
        return str(escape(text))
    return "".join(
        f"<bdi>{escape(run)}</bdi>" if leftwards else str(escape(run))
        for run, leftwards in _runs(text)
    )


def _runs(text: str) -> Iterator[tuple[str, bool]]:
    """Yield parts of a text, and whether each is written from right to left."""
    start, leftwards = 0, False
    for at, char in enumerate(text):
        way = bidirectional(char)
        now = leftwards if way == "NSM" else way in _LEFTWARDS  # a mark belongs to its letter
        if now != leftwards:
            yield text[start:at], leftwards
            start, leftwards = at, now
    yield text[start:], leftwards


def coded(text: str) -> Markup:
    """Return a text as HTML, with text between backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        parts[-2:] = [type(text)("`").join(parts[-2:])]  # the last backtick has no partner
    marked = (
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )
    return Markup("").join(marked)
