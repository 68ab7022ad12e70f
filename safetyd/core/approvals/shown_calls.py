"""Calls of an unknown program that an approval covers, because the operator saw calls like them.

A later call may name other files of the project and other numbers. Anything else that the card did
not show needs a new approval: an option, a value of an option that may be a program or a path
outside the project, and text.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from safetyd.core.shell.argument_rules import names_command
from safetyd.core.shell.reading import Finding

MAX_WORDS: Final = 200  # of a call that is remembered
_END: Final = "\n"  # between calls; no word is a line end
_is_name = re.compile(r"[\w@%+,.=][\w@%+,.=/-]*").fullmatch
_parts_of = re.compile(r"[=,]").split


def shown_words(found: Sequence[Finding]) -> tuple[str, ...]:
    """Return the words of calls that an operator sees, and the files that they get as input."""
    return tuple(word for each in found for word in (*_words_of(each), _END))


def _words_of(found: Finding) -> Sequence[str]:
    return found.words if found.program else [touch.given for touch in found.touches]


def are_like(words: Sequence[str], shown: Sequence[str], folder: str) -> bool:
    """Return whether calls have only words like those that were shown."""
    pairs = set(pairwise((_END, *shown)))
    return all(
        _is_option_like(word, shown)
        if word[:1] == "-"
        else word == _END
        or (before, word) in pairs
        or (_is_inside(word, folder) and _may_vary(before, word, pairs, folder))
        or (not _takes_value(before) and word in shown)
        for before, word in pairwise((_END, *words))
    )


def _takes_value(before: str) -> bool:
    """Return whether the next word may be the value of an option."""
    return before[:1] == "-" and before != "--" and "=" not in before


def _is_option_like(word: str, shown: Sequence[str]) -> bool:
    name, equals, value = word.partition("=")
    number = bool(equals) and value.isdecimal()
    return word in shown or (number and any(each.startswith(f"{name}=") for each in shown))


def _may_vary(before: str, word: str, pairs: set[tuple[str, str]], folder: str) -> bool:
    """Return whether a file of the project may follow another word here."""
    if not _takes_value(before) or word.isdecimal():
        return True
    files = (other for option, other in pairs if option == before and other != _END)
    return not names_command(before) and any(_is_inside(other, folder) for other in files)


def _is_inside(word: str, folder: str) -> bool:
    """Return whether a word is a name, a number or a file of the project."""
    path = word.removeprefix(f"{folder}/")
    parts = [part for part in _parts_of(path) if part]
    return bool(_is_name(path)) and not any(
        part.startswith("/") or ".." in part.split("/") for part in parts
    )
