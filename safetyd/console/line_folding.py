"""Wraps lines to the width of the terminal.

safetyd's own lines wrap between words. Lines of an agent's text wrap at the edge: the first row
starts with a bar and the others with a plus. So an agent cannot imitate safetyd's lines.
"""

import re
import textwrap
import unicodedata
from collections.abc import Iterator
from typing import Final

from safetyd.core.text.visible_text import visible

BEGINS: Final = "  | "
GOES_ON: Final = "  + "
_find_label = re.compile(r" *\S+(?: \S+)* {2,}").match  # finds the label before a fact


def quoted(words: object, columns: int) -> list[str]:
    """Return an agent's text with bars, and with invisible characters made visible."""
    return [row for line in str(words).split("\n") for row in barred(visible(line), columns)]


def barred(shown: str, columns: int) -> Iterator[str]:
    """Yield the rows of one line of an agent's text: the first after a bar, others after a plus."""
    return _chopped(shown, columns, BEGINS)


def fitted(text: str, columns: int) -> str:
    """Wrap all lines that are too wide."""
    return "\n".join(row for line in text.split("\n") for row in folded(line, columns))


def folded(line: str, columns: int) -> Iterator[str]:
    """Yield a line as rows of at most `columns`. All rows after the first are indented.

    If the line consists of a label and a fact, these rows begin below the fact.
    """
    if line.startswith((BEGINS, GOES_ON)) or any(map(_is_wide, line)):
        yield from _chopped(line, columns, "")
        return
    found = _find_label(line)
    label = found.end() if found else 0
    indent = label if label <= columns // 2 else 0
    indent = indent or len(line) - len(line.lstrip()) + len(GOES_ON)
    yield from textwrap.wrap(
        line, columns, subsequent_indent=" " * indent, break_on_hyphens=False
    ) or [line]


def _chopped(shown: str, columns: int, begins: str) -> Iterator[str]:
    row, used = begins, len(begins)
    if shown.isascii() and used + len(shown) <= columns:
        yield row + shown
        return
    for char in shown:
        cells = 2 if _is_wide(char) else 1
        if used + cells > columns:
            yield row
            row, used = GOES_ON, len(GOES_ON)
        row, used = row + char, used + cells
    yield row


def _is_wide(char: str) -> bool:
    return unicodedata.east_asian_width(char) in "WF"
