"""Text for a terminal and for programs. What agents wrote can neither move the cursor nor hide."""

import json
import unicodedata
from typing import Final

import msgspec

MAX_CHARS: Final = 500

_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
# Control, format, surrogate, private use, unassigned, separators of lines, paragraphs and words.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
# Letters and marks that show nothing: fillers, joiners, variation selectors, a Braille cell.
_BLANK: Final = frozenset(
    {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}
    | set(range(0x180B, 0x1810))
    | set(range(0xFE00, 0xFE10))
    | set(range(0xE0100, 0xE01F0))
)


def plain(text: object, limit: int = MAX_CHARS) -> str:
    """Return one line of at most about `limit` characters in which everything can be seen."""
    said = str(text)
    shown = "".join(map(_visible, said[:limit]))
    if len(said) <= limit and len(shown) <= limit:
        return shown
    return f"{shown[:limit]}… ({len(said)} characters)"


def whole(line: str) -> str:
    """Return all of a line, however long it gets when everything in it can be seen."""
    return "".join(map(_visible, line))


def several(count: int, noun: str) -> str:
    """Return a number of things, one of them without an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def document(content: object, *, indent: int | None = None) -> str:
    """Return JSON in ASCII: for programs, and harmless if a person looks at it."""
    text = json.dumps(msgspec.to_builtins(content), indent=indent)
    return text.replace("\x7f", "\\u007f")


def _visible(char: str) -> str:
    if " " <= char <= "~":
        return char
    if unicodedata.category(char) not in _UNSEEN and ord(char) not in _BLANK:
        return char
    return _NAMED.get(char) or _escaped(ord(char))


def _escaped(number: int) -> str:
    # As Python writes it: \x1b, \u202e, \U000e0041.
    return chr(number).encode("unicode_escape", "surrogatepass").decode("ascii")
