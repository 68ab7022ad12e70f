"""The alphabet of SMS (GSM 03.38): what a text costs in it, and how any text is put into it.

One character outside of it makes a whole message three times as dear, so none is ever sent.
"""

import re
import unicodedata
from bisect import bisect_right
from itertools import accumulate
from typing import Final

ONE: Final = 160  # septets of a message in one segment
PART: Final = 153  # septets of each segment of a longer one; the rest says where it belongs

BASIC: Final = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
EXTENDED: Final = frozenset("\f^{}\\[~]|€")  # these take two septets

_ALIKE: Final = {
    **dict.fromkeys("“”„‟«»″", '"'),
    **dict.fromkeys("‘’‚‛‹›′`´", "'"),  # noqa: RUF001 - these are the point
    **dict.fromkeys("‐‑‒–—―−", "-"),  # noqa: RUF001 - these are the point
    **dict.fromkeys("\t\v\x85\u2028\u2029", " "),
    **dict.fromkeys("•‣◦·", "*"),
    **dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX", strict=True)),  # noqa: RUF001 - Greek
    "…": "...",
    "→": "->",
    "←": "<-",
    "⇒": "=>",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "×": "x",  # noqa: RUF001 - the sign
    "÷": "/",
    "©": "(c)",
    "®": "(R)",
    "½": "1/2",
    "¼": "1/4",
    "¾": "3/4",
    "Œ": "OE",
    "œ": "oe",
    "Ł": "L",
    "ł": "l",
    "Đ": "D",
    "đ": "d",
    "Þ": "Th",
    "þ": "th",
    "ı": "i",  # noqa: RUF001 - without its dot
    "ẞ": "ß",
}
_LOST: Final = "\0"  # stands for a character that has no likeness, until it is known how many
_lost = re.compile(f"{_LOST}+").sub
_spaces = re.compile(" {2,}").sub


def normalise(text: str) -> str:
    """Return a text in this alphabet that reads as much like the given one as it can.

    Letters lose the accents that it does not have; those of other scripts become one `?` a run;
    pictures become a space. What is lost may leave an address where there was none: who shows the
    words of others makes them harmless afterwards.
    """
    spelt = "".join(map(_spelt, unicodedata.normalize("NFC", text)))
    return _spaces(" ", _lost("?", spelt)).strip(" ")


def septets(text: str) -> int:
    """Return the length of a normalised text as it is charged."""
    return len(text) + sum(char in EXTENDED for char in text)


def segments(text: str) -> int:
    """Return how many messages a normalised text is sent and paid as."""
    if septets(text) <= ONE:
        return 1
    count, room = 1, PART
    for char in text:
        size = septets(char)
        if size > room:  # a character of two septets is never divided
            count, room = count + 1, PART
        room -= size
    return count


def clip(text: str, most: int) -> str:
    """Return a normalised text in so many septets, with `...` in place of what did not fit."""
    if septets(text) <= most:
        return text
    if most < len("..."):
        return ""
    ends = tuple(accumulate(map(septets, text)))
    return text[: bisect_right(ends, most - len("..."))].rstrip() + "..."


def _spelt(char: str) -> str:
    if char in BASIC or char in EXTENDED:
        return char
    if char in _ALIKE:
        return _ALIKE[char]
    category = unicodedata.category(char)
    if category in {"Mn", "Mc", "Me", "Cf"}:
        return ""  # accents and what is not seen
    if category[0] in "LN":
        return _plain(char)
    return _LOST if category == "Sc" or category[0] == "P" else " "


def _plain(char: str) -> str:
    """Return a letter or digit without its accents, or as a capital, or as lost."""
    parts = unicodedata.normalize("NFKD", char)
    bare = "".join(part for part in parts if not unicodedata.combining(part))
    for likeness in (bare, "".join(_ALIKE.get(part, part) for part in bare.upper())):
        if likeness.isalnum() and BASIC.issuperset(likeness):
            return likeness
    return _LOST
