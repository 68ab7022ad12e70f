"""Which known type an unknown one plainly is; in doubt none, lest it be called a laxer one."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from safetyd.core.action_types import Kind

ALIKE: Final = 0.85  # of two spellings of a word: file and files, red and read

# What has one of these words in its name does something, whatever the other words are.
_ACTING: Final = """
    add append apply approve book buy call cancel change chmod chown clone close commit copy
    create curl delete deploy destroy disable drop edit enable erase exec execute format grant http
    insert install invoke kill launch merge modify move order overwrite patch pay post publish purge
    push put reboot remove rename replace request reset restart restore revoke rm run save schedule
    sell send set shutdown start stop submit sudo terminate transfer trigger truncate uninstall
    update upload wipe write
"""
_ACTS: Final = frozenset(_ACTING.split())


def like(name: str, known: Mapping[str, Kind]) -> str | None:
    """Return the one known type that a name is another spelling of, or has the words of.

    What acts, and what is only a word, is never like what only reads; and what is a word that does
    not act is never like what passes without a person: `keys` are not one more `key`.
    """
    words = name.split("_")
    found = [*_spelt_alike(words, known)] or [*_named(words, known)]
    if len(found) != 1:
        return None
    (kind,) = found
    acts, several = not _ACTS.isdisjoint(words), len(words) > 1
    if kind.read_only:
        plainly = several and not acts
    else:
        plainly = several or acts or kind.tier != "auto_allowed"
    return kind.type if plainly else None


def _spelt_alike(words: Sequence[str], known: Mapping[str, Kind]) -> Iterator[Kind]:
    """Yield the types of the same words, in any order, but for a slip in each."""
    given = sorted(words)
    for name, kind in known.items():
        own = sorted(name.split("_"))
        if len(own) == len(given) and all(map(_same_word, given, own)):
            yield kind


def _same_word(given: str, own: str) -> bool:
    if given == own or given in _ACTS:  # a word that acts is no slip of another
        return given == own
    ratio = difflib.SequenceMatcher(None, given, own).ratio
    return given[:1] == own[:1] and ratio() >= ALIKE


def _named(words: Sequence[str], known: Mapping[str, Kind]) -> Iterator[Kind]:
    """Yield the types whose verb is the whole name, or that a longer name has every word of.

    Other words may make an action worse, so those that pass without a person are left out.
    """
    for name, kind in known.items():
        own = name.split("_")
        if own[0] == words[0] if len(words) == 1 else _has_part(words, own, kind):
            yield kind


def _has_part(words: Sequence[str], own: Sequence[str], kind: Kind) -> bool:
    others = set(words) - set(own)
    return kind.tier != "auto_allowed" and set(own) <= set(words) and not _ACTS & others
