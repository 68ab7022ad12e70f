"""Lines that fit: ours are folded between words, an agent's exactly where they are too long.

Each line of an agent stands behind a bar, and goes on behind a plus, so that it can pass neither
for ours nor for the end of its own.
"""

import re
import textwrap
import unicodedata
from collections.abc import Iterator
from typing import Final

from safetyd.core.text.visible_text import visible

BEGINS: Final = "  | "
GOES_ON: Final = "  + "
_find_label = re.compile(r" *\S+(?: \S+)* {2,}").match  # what stands before a fact


def quoted(words: object, columns: int) -> list[str]:
    """Return an agent's words behind bars, with everything unseen made visible."""
    return [row for line in str(words).split("\n") for row in barred(visible(line), columns)]


def barred(shown: str, columns: int) -> Iterator[str]:
    """Yield one line of an agent behind a bar; what is too long for it behind a plus each."""
    return _chopped(shown, columns, BEGINS)


def fitted(text: str, columns: int) -> str:
    """Fold what is still too wide, so that no line goes on where a line of ours would begin."""
    return "\n".join(row for line in text.split("\n") for row in folded(line, columns))


def folded(line: str, columns: int) -> Iterator[str]:
    """Yield a line as several, none wider than `columns`; what follows stands below its words."""
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
