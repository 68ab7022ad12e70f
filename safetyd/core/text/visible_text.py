"""Text of which nothing is hidden: what a screen would not show is spelt out or replaced.

Hidden are controls, signs that turn the direction of reading, spaces but the ordinary one, what is
no character, and letters and marks that show nothing. They are spelt as Python does.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Final

# Fillers, joiners, a Braille cell and variation selectors, which pass for printable.
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
    """Return all of a text on one line, with what is hidden spelt out."""
    return "".join(part for part, _ in pieces(text, kept=""))


def quoted(text: str, most: int = 200) -> str:
    """Return the beginning of an agent's words in quotes, so that they cannot pass for ours."""
    shown = visible(text[:most]).replace('"', "'")
    return f'"{shown}..."' if len(text) > most else f'"{shown}"'


def marked(text: str, mark: str) -> str:
    """Return as many characters as a text has, with `mark` for each that is hidden."""
    if not _hides(text):
        return text
    return "".join(mark if _hides(char) else char for char in text)


def printable_line(text: str) -> str:
    """Return a text on one line, with one space for whatever is between its words."""
    return " ".join(marked(text, " ").split())


def pieces(text: str, kept: str = "\n\t") -> Iterator[tuple[str, bool]]:
    """Yield all of a text in parts, and of each whether it stands for what is hidden.

    Characters that are `kept` stay what they are.
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
