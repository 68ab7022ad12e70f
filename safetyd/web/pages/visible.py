"""Agents' words for a page: what would not be seen, or would turn the line around, is spelt out."""

import unicodedata
from collections.abc import Iterator
from itertools import groupby
from typing import Final

# Control, format, surrogate, private use, unassigned, separators of lines, paragraphs and words.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
# Letters and marks that show nothing: fillers, joiners, variation selectors, a Braille cell.
_BLANK: Final = frozenset(
    {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}
    | set(range(0x180B, 0x1810))
    | set(range(0xFE00, 0xFE10))
    | set(range(0xE0100, 0xE01F0))
)


def pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Yield all of a text in parts, and of each whether it stands for what cannot be seen.

    Line feeds and tabs stay what they are.
    """
    for hidden, chars in groupby(text, _hidden):
        part = "".join(chars)
        yield (_spelt(part) if hidden else part), hidden


def _hidden(char: str) -> bool:
    if " " <= char <= "~" or char in "\n\t":
        return False
    return unicodedata.category(char) in _UNSEEN or ord(char) in _BLANK


def _spelt(part: str) -> str:
    # As Python writes it: \x1b, \u202e, \U000e0041.
    return part.encode("unicode_escape", "surrogatepass").decode("ascii")
