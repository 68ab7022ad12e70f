"""Finds the known type that an unknown name clearly means. If in doubt, it finds none."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from safetyd.core.action_types import Kind

ALIKE: Final = 0.85  # minimum similarity of two spellings, such as file and files, or red and read

# A type name with one of these words is assumed to change something.
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
    """Return the known type that a name misspells, or whose words it contains, if there is one.

    A name with an acting word, or with a single word, never matches a type that only reads. A
    single word that is not an acting word never matches an allowed type: `keys` is not `key`.
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
    """Yield the types with the same words in any order. Each word may have a typo."""
    given = sorted(words)
    for name, kind in known.items():
        own = sorted(name.split("_"))
        if len(own) == len(given) and all(map(_same_word, given, own)):
            yield kind


def _same_word(given: str, own: str) -> bool:
    if given == own or given in _ACTS:  # one acting word is never a typo of another
        return given == own
    ratio = difflib.SequenceMatcher(None, given, own).ratio
    return given[:1] == own[:1] and ratio() >= ALIKE


def _named(words: Sequence[str], known: Mapping[str, Kind]) -> Iterator[Kind]:
    """Yield the types whose verb is the whole name, or whose words are all in a longer name.

    More words may mean a more dangerous action, so types that are allowed are left out.
    """
    for name, kind in known.items():
        own = name.split("_")
        if own[0] == words[0] if len(words) == 1 else _has_part(words, own, kind):
            yield kind


def _has_part(words: Sequence[str], own: Sequence[str], kind: Kind) -> bool:
    others = set(words) - set(own)
    return kind.tier != "auto_allowed" and set(own) <= set(words) and not _ACTS & others
