"""Finds globs that may match the same files as a file name pattern of a shell.

Any two patterns with wildcards may have a file in common: `cat src/*` may print `src/id_rsa`. So a
pattern counts only if its literal characters point to a glob, as `~/.ss?/id_*` does.
"""

import enum
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import translate
from typing import Final

ANY: Final = "**"
_ENOUGH: Final = 3  # literal characters that point to a name
_RARE: Final = 6  # characters of an extension that points to a name, as in `*.token`

_extended = re.compile(r"[@?*+!]\([^()]*\)").sub
_wildcards = re.compile(r"\[[!^]?\]?[^\]]*\]|[*?]")


class _Match(enum.IntEnum):
    """How clearly a part of a pattern points to a part of a glob."""

    NOT = 0
    VAGUELY = 1
    CLEARLY = 2


class Overlaps:
    """A list of globs, as in `path_globs`. Letter case does not matter."""

    def __init__(self, globs: Iterable[str]) -> None:
        self._globs = {glob: tuple(glob.lower().split("/")) for glob in globs}
        self._by_name: dict[str, list[str]] = {}
        for glob, names in self._globs.items():
            for name in names:
                self._by_name.setdefault(name, []).append(glob)
        self._by_name.pop(ANY, None)
        self.find = functools.lru_cache(maxsize=256)(self._find)

    def _find(self, pattern: str, inside: bool) -> str | None:  # noqa: FBT001 - it is cached
        """Return a glob to which a pattern points.

        Inside a project, every name in the glob must be recognisable.
        """
        given = _extended("*", pattern.lower()).split("/")
        likely = dict.fromkeys(
            glob
            for part in dict.fromkeys(given)
            for name, globs in self._by_name.items()
            if _match(part, name) is _Match.CLEARLY
            for glob in globs
        )
        for glob in likely:
            if _overlap(given, self._globs[glob], vague=not inside):
                return glob
        return None


def _overlap(given: Sequence[str], names: Sequence[str], *, vague: bool) -> bool:
    """Return True if a pattern points to a glob. `vague` allows vague matches of some names."""
    least = _Match.VAGUELY if vague else _Match.CLEARLY
    states = set(_skip(0, names, clear=False))
    for part in given:
        after = set[tuple[int, bool]]()
        for at, clear in states:
            if part == ANY and vague:
                after |= {(each, clear) for each in range(at, len(names) + 1)}
            if part == ANY or (at < len(names) and names[at] == ANY):
                after |= set(_skip(at, names, clear=clear))
            elif at < len(names) and (found := _match(part, names[at])) >= least:
                if found is _Match.VAGUELY and at and names[at - 1] == ANY:
                    continue  # after `**`, almost every path would match
                after |= set(_skip(at + 1, names, clear=clear or found is _Match.CLEARLY))
        states = after
    return (len(names), True) in states


def _skip(at: int, names: Sequence[str], *, clear: bool) -> Iterator[tuple[int, bool]]:
    """Yield a position in a glob, and the positions after `**`, which may match nothing."""
    yield at, clear
    while at < len(names) and names[at] == ANY:
        at += 1
        yield at, clear


@functools.lru_cache(maxsize=16 * 1024)
def _match(part: str, name: str) -> _Match:
    """Compare a part of a pattern with a part of a glob, both between slashes."""
    if not part or not name:  # before the slash of an absolute path
        return _Match.VAGUELY if part == name else _Match.NOT
    literal = _wildcards.sub("", part)
    if literal == part:
        return _Match.CLEARLY if _regex(name)(part) else _Match.NOT
    if name == "*":
        return _Match.VAGUELY
    samples = {name.replace("*", "x"), name.replace("*", "x" if name[0] == "*" else "")}
    found = [sample for sample in samples if _regex(part)(sample)]
    starts = literal != "" and part[0] == literal[0] and part[0] not in "*?["
    if not found or (name[0] == "." and not starts and literal not in {name, name[1:]}):
        return _Match.NOT  # in a shell, wildcards do not match a dot at the start
    return _clearness(literal, name, starts=starts)


def _clearness(literal: str, name: str, *, starts: bool) -> _Match:
    """Return how clearly the literal characters of a pattern point to a name that it matches."""
    if not literal:
        return _Match.VAGUELY
    extension = not starts and literal[0] == "."  # as in `*.conf`
    if extension and literal != name:
        enough = _ENOUGH if name[0] == "*" else _RARE
        return _Match.CLEARLY if len(literal) >= enough else _Match.NOT
    if (starts and name[0] == ".") or len(literal) >= _ENOUGH:
        return _Match.CLEARLY
    return _Match.VAGUELY if starts else _Match.NOT


@functools.lru_cache(maxsize=1024)
def _regex(glob: str) -> Callable[[str], re.Match[str] | None]:
    return re.compile(translate(glob.replace("[^", "[!"))).match
