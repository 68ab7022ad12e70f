"""Makes hidden characters visible: escapes or replaces characters that a screen does not show.

Hidden characters are control and direction characters, unusual spaces, unassigned code points, and
invisible letters and marks. Escapes have the syntax of Python.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Final

# Invisible characters that Python calls printable: fillers, joiners, variation selectors.
BLANK: Final = "".join(
    map(
        chr,
        (
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
            *range(0x180B, 0x1810),
            *range(0xFE00, 0xFE10),
            *range(0xE0100, 0xE01F0),
        ),
    )
)

_BLANK: Final = frozenset(BLANK)


def visible(text: str) -> str:
    """Return a text on one line, with escapes for hidden characters."""
    return "".join(part for part, _ in pieces(text, kept=""))


def quoted(text: str, most: int = 200) -> str:
    """Return the beginning of an agent's words in quotes, to tell them from safetyd's words."""
    shown = visible(text[:most]).replace('"', "'")
    return f'"{shown}..."' if len(text) > most else f'"{shown}"'


def marked(text: str, mark: str) -> str:
    """Return a text of the same length, with `mark` for each hidden character."""
    if not _hides(text):
        return text
    return "".join(mark if _hides(char) else char for char in text)


def printable_line(text: str) -> str:
    """Return a text on one line, with single spaces between words."""
    return " ".join(marked(text, " ").split())


def pieces(text: str, kept: str = "\n\t") -> Iterator[tuple[str, bool]]:
    """Yield a text in parts. Each part says whether it is an escape for hidden characters.

    Characters in `kept` are not escaped.
    """
    if text and not _hides(text):
        yield text, False
        return
    for hidden, chars in groupby(text, lambda char: char not in kept and _hides(char)):
        part = "".join(chars)
        yield (_spelt(part) if hidden else part), hidden


def _hides(text: str) -> bool:
    return not (text.isprintable() and (text.isascii() or _BLANK.isdisjoint(text)))


def _spelt(part: str) -> str:
    return part.encode("unicode_escape", "surrogatepass").decode("ascii")


def cut_to(text: str, most: int) -> str:
    """Return a line of at most `most` characters. An ellipsis marks what was cut in the middle."""
    if len(text) <= most:
        return text
    end = (most - 1) // 3
    begin = most - 1 - end
    return f"{text[:begin].rstrip()}…{text[len(text) - end :].lstrip()}"
