"""Text as people see it: Unicode folding, deceptive characters, and masks for secrets.

ASCII is never folded, because patterns ignore case. Everything takes linear time, even for hostile
text.
"""

import functools
import itertools
import re
import string
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Final, Literal

import msgspec

# All code points that fold to something else, without Han, Hangul and private use.
_FOLDING: Final = (
    range(0x41, 0x5B),
    range(0x80, 0x3400),
    range(0xA000, 0xAC00),
    range(0xD7B0, 0xE000),
    range(0xF900, 0x17000),
    range(0x1B000, 0x20000),
    range(0x2F800, 0x2FA20),
    range(0xE0000, 0xE1000),
)
# The table has all of these characters, because a failed look-up is slow.
_FREQUENT: Final = range(0x80, 0x800)
_BLANK: Final = frozenset("\u0085\u2800")
_UNSEEN: Final = frozenset(
    "\u034f\u115f\u1160\u2065\u3164\uffa0"  # joiners and fillers
    + "".join(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10))))  # variation selectors
    + "".join(map(chr, range(0xE0000, 0xE1000)))  # tags and more selectors
)
_MANY_MARKS: Final = 9  # this many combining marks in a row on one letter are too many
_LONGEST_EXPANSION: Final = 4  # a character that folds to more characters than this stays as it is

_BIDI: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
# An emoji flag contains three to six hidden letters or digits. Other tags hide text.
_TAG: Final = re.compile(
    "\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f"
    "|([\U000e0000-\U000e007f])"
)
_WORD: Final = re.compile(r"[^\W\d_]{2,}")
_CLUTTER: Final = re.compile(rf"[^\w\s]{{{_MANY_MARKS}}}")  # possibly marks
_UNPRINTABLE: Final = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f]"
)  # except tab, newline and other white space
_MASKED: Final = re.compile(r"\[masked, \d+ characters\]")

# Letters that UTS 39 lists as confusable with A-Z and a-z.
_LOOKALIKES: Final = (
    "ЅІЈАВЕКМНОРСТУХЫЬЮагеорсухѕіјѡѴѵҮүһҽӀӏӔӕԁԌԛԜԝꙇꚘꚙ"  # Cyrillic
    "ͺͿΑΒΕΖΗΙΚΜΝΟΡΤΥΧαγινορσυϒϜϱϲϳϹϺᴦ"  # noqa: RUF001 - Greek
    "ᎠᎡᎢᎥᎩᎪᎫᎬᎳᎷᎻᎽᏀᏂᏃᏏᏒᏔᏕᏙᏚᏞᏟᏢᏦᏧᏳᏴꭵꮁꮃꮓꮩꮪꮯ"  # noqa: RUF001 - Cherokee
    "ՍՏՕագզհոռսցքօ"  # noqa: RUF001 - Armenian
)


class _Tables(msgspec.Struct, frozen=True):
    """Tables for folding, created on first use because that takes 50 ms."""

    reads_as: dict[int, str]
    marks: frozenset[str]
    unseen: frozenset[str]
    lookalikes: frozenset[str]
    latin: frozenset[str]


def fold(text: str) -> str:
    """Return `text` in compatibility form and case folded, without invisible characters.

    Accents that compose with a letter stay; other marks are removed.
    """
    if text.isascii():
        return text if text.isprintable() else _UNPRINTABLE.sub("", text)
    return _folded(text)


def forms(fields: Iterable[str]) -> tuple[str, ...]:
    """Return each non-empty field, and its folded form if that differs."""
    said = tuple(field for field in fields if field)
    joined = "".join(said)
    if joined.isascii() and joined.isprintable():
        return said
    return tuple(dict.fromkeys(itertools.chain(said, map(fold, said))))


def deception(text: str) -> str:
    """Return a phrase that says how `text` may deceive a reader, or an empty string."""
    if text.isascii():
        return ""
    if control := _BIDI.search(text):
        return f"{_code_point(control[0])} changes the direction of the text"
    if tag := next(filter(None, _TAG.findall(text)), ""):
        return f"{_code_point(tag)} is an invisible tag character"
    if _mixes_scripts(text):
        return "a word mixes Latin letters with look-alikes from another script"
    return ""


def masked(text: str) -> str:
    """Return a placeholder for a secret. A placeholder itself is returned unchanged."""
    return text if is_masked(text) else f"[masked, {len(text)} characters]"


def is_masked(text: str) -> bool:
    """Return True if a text is the placeholder of a secret."""
    return text.startswith("[") and _MASKED.fullmatch(text) is not None


def prepare() -> None:
    """Create the tables now, so that no decision has to wait for them."""
    _tables()


def _code_point(char: str) -> str:
    return f"U+{ord(char):04X}"


@functools.lru_cache(maxsize=8)  # several checks need the same text
def _folded(text: str) -> str:
    tables = _tables()
    text = text.translate(tables.reads_as)
    if tables.marks.isdisjoint(text):
        return text
    if _CLUTTER.search(text):
        text = "".join(_without_surplus(text, tables.marks))
    return _without(tables.marks, unicodedata.normalize("NFC", text))


@functools.cache
def _tables() -> _Tables:
    # Unassigned code points fold to themselves.
    chars = [
        char
        for code in itertools.chain(*_FOLDING)
        if unicodedata.category(char := chr(code)) != "Cn" or code in _FREQUENT or char in _UNSEEN
    ]
    folded = _each("NFKC", chars, str.casefold)
    reads_as = {
        ord(char): reading
        for char, whole in zip(chars, folded, strict=True)
        if (reading := _reading(char, whole)) != char or ord(char) in _FREQUENT
    }
    marks = frozenset(char for char in chars if unicodedata.category(char) in {"Mn", "Me"})
    bases = {char: whole[0] for char, whole in zip(chars, _each("NFKD", chars), strict=True)}
    return _Tables(
        reads_as=reads_as,
        marks=marks,
        unseen=marks | {char for char in chars if reads_as.get(ord(char)) == ""},
        lookalikes=frozenset(char for char, base in bases.items() if base in _LOOKALIKES),
        latin=frozenset(string.ascii_letters).union(
            char
            for char, base in bases.items()
            if base in string.ascii_letters or unicodedata.name(char, "").startswith("LATIN")
        ),
    )


def _each(
    form: Literal["NFKC", "NFKD"], chars: Sequence[str], then: Callable[[str], str] = str
) -> list[str]:
    """Return each character in a normal form. One call for all characters is faster."""
    return then(unicodedata.normalize(form, "\n".join(chars))).split("\n")


def _without(unwanted: Container[str], text: str) -> str:
    return "".join([char for char in text if char not in unwanted])


def _without_surplus(text: str, marks: Container[str]) -> Iterator[str]:
    """Shorten runs of marks, because sorting a long run takes quadratic time."""
    run = 0
    for char in text:
        run = run + 1 if char in marks else 0
        if run < _MANY_MARKS:
            yield char


def _reading(char: str, folded: str) -> str:
    category = unicodedata.category(char)
    if category[0] == "Z" or char in _BLANK:
        return " "
    if category in {"Cf", "Cs", "Cc"} or char in _UNSEEN:
        return ""
    return folded if len(folded) <= _LONGEST_EXPANSION else char


def _mixes_scripts(text: str) -> bool:
    tables = _tables()
    if tables.lookalikes.isdisjoint(text):
        return False
    if not tables.unseen.isdisjoint(text):
        text = _without(tables.unseen, text)
    words = (match[0] for match in _WORD.finditer(text))
    return any(
        not (tables.lookalikes.isdisjoint(word) or tables.latin.isdisjoint(word)) for word in words
    )
