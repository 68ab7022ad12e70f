"""The SMS alphabet (GSM 03.38): convert a text to it, and compute the length of a text in it.

A single character outside this alphabet makes the whole message about three times as expensive, so
safetyd never sends one.
"""

import re
import unicodedata
from bisect import bisect_right
from itertools import accumulate
from typing import Final

ONE: Final = 160  # septets of a message in one segment
PART: Final = 153  # septets in each segment of a longer message; the rest is a header

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
_LOST: Final = "\0"  # marks a character without an equivalent; each run becomes one `?`
_lost = re.compile(f"{_LOST}+").sub
_spaces = re.compile(" {2,}").sub


def normalise(text: str) -> str:
    """Convert a text to this alphabet, as similar as possible.

    Letters lose accents that the alphabet lacks, a run of letters of other scripts becomes one `?`,
    and emoji become a space. The result may contain a link that the text did not, so sanitize an
    agent's text afterwards.
    """
    spelt = "".join(map(_spelt, unicodedata.normalize("NFC", text)))
    return _spaces(" ", _lost("?", spelt)).strip(" ")


def septets(text: str) -> int:
    """Return the length of a normalised text in septets."""
    return len(text) + sum(char in EXTENDED for char in text)


def segments(text: str) -> int:
    """Return the number of segments of a normalised text, which are charged separately."""
    if septets(text) <= ONE:
        return 1
    count, room = 1, PART
    for char in text:
        size = septets(char)
        if size > room:  # a character of two septets is never split
            count, room = count + 1, PART
        room -= size
    return count


def clip(text: str, most: int) -> str:
    """Return a normalised text of at most `most` septets; `...` marks a cut."""
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
        return ""  # accents and invisible characters
    if category[0] in "LN":
        return _plain(char)
    return _LOST if category == "Sc" or category[0] == "P" else " "


def _plain(char: str) -> str:
    """Return a similar letter or digit of the alphabet, or `_LOST` if there is none."""
    parts = unicodedata.normalize("NFKD", char)
    bare = "".join(part for part in parts if not unicodedata.combining(part))
    for likeness in (bare, "".join(_ALIKE.get(part, part) for part in bare.upper())):
        if likeness.isalnum() and BASIC.issuperset(likeness):
            return likeness
    return _LOST
