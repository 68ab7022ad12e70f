"""Resolves paths of agents without opening files, and matches them with globs.

Symbolic links are not followed here. In a glob, `*` and `?` match within one name, `**` matches any
number of directories, and everything else is literal. A glob that starts with `!` excludes paths
that other globs match.
"""

import functools
import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec
import re2

from safetyd.core.text.pattern_overlap import Overlaps

EXCEPT: Final = "!"

_WILDCARD: Final = re.compile(r"(/\*\*\Z|\*\*/|\*\*|\*|\?)")
_MEANING: Final = {
    "/**": "(?:/.*)?",  # also matches the directory itself
    "**/": "(?:.*/)?",
    "**": ".*",
    "*": "[^/]*",
    "?": "[^/]",
}
# The same for a text of many paths, separated by NUL, which no path contains.
_MEANING_AMONG: Final = {
    "/**": "(?:/[^\\x00]*)?",
    "**/": "(?:[^\\x00]*/)?",
    "**": "[^\\x00]*",
    "*": "[^/\\x00]*",
    "?": "[^/\\x00]",
}
# Paths that must be resolved before matching.
_UNRESOLVED: Final = r"//|/\x00|\x00\x00|[/\x00]\.\.?[/\x00]|\$|\x00~"
_wildcards = re.compile(r"[*?\[]").search
_UPWARDS: Final = re.compile(r"(?:\.\./)+")
# Characters that end a word of a command, and quotes that a shell removes.
_WORDS: Final = str.maketrans(dict.fromkeys("\v\f;|&<>()=:,@`{}", " ") | dict.fromkeys("'\"\\"))

Matcher = Callable[[bytes], list[int] | None]  # returns the numbers of the matching patterns


# In a list of resolved paths, this means that there were too many to resolve.
UNFOLLOWED: Final = ""


class PathTarget(msgspec.Struct, frozen=True, gc=False):
    """A resolved path of a proposal."""

    given: str
    path: str  # resolved, without `.` and `..`; absolute if possible
    local: str | None = None  # relative to the project's root, if it is inside
    opaque: bool = False  # True: only a shell could resolve it
    reached: bool = False  # it is the target of a link, not the path that the agent wrote
    pattern: bool = False  # a file name pattern, which a shell replaces by files


def from_folder(given: str, cwd: str | None) -> str:
    """Return a path of a proposal, joined to its folder `cwd` if it is relative to it."""
    return posixpath.join(cwd, given) if cwd and given[:1] not in {"~", "$"} else given


@functools.lru_cache(maxsize=1024)  # every guard and every set of rules needs the same paths
def place(given: str, root: str, cwd: str | None = None) -> PathTarget:
    """Return where a path of a proposal is.

    A relative path starts at `cwd`. A relative `cwd` starts at `root`, which is absolute or empty.
    """
    given = from_folder(given, cwd)
    if given.startswith("~") or "$" in given:
        return PathTarget(given, _plain(given), opaque=True)
    if not root and _is_plain(given):
        return PathTarget(given, given)
    path = _plain(posixpath.join(root, given))
    return PathTarget(given, path, _local(path, _plain(root)) if root else None)


def is_pattern(path: str) -> bool:
    """Return True if a path may be a file name pattern."""
    return _wildcards(path) is not None


def reached(path: str, root: str) -> PathTarget:
    """Return the target of a link, given as an absolute path."""
    return PathTarget(path, path, _local(path, _plain(root)) if root else None, reached=True)


@functools.lru_cache(maxsize=1024)
def likely(word: str, root: str, cwd: str | None = None) -> tuple[PathTarget, ...]:
    """Return the paths that a word of a command may mean. `..` may lead up to the root."""
    where = place(word, root, cwd)
    up = _UPWARDS.match(where.path)
    return (where, PathTarget(word, f"/{where.path[up.end() :]}")) if up else (where,)


@functools.lru_cache(maxsize=8)  # several guards need the same text
def path_words(text: str) -> tuple[str, ...]:
    """Return the words of a command, any of which may be a path."""
    return tuple(text.translate(_WORDS).split())


def _is_plain(path: str) -> bool:
    """Return True if `_plain` would not change a path (cheap check)."""
    return path[:1] not in {"", "."} and path[-1] != "/" and "//" not in path and "/." not in path


def _plain(path: str) -> str:
    plain = posixpath.normpath(path)
    return plain[1:] if plain.startswith("//") else plain


def _local(path: str, root: str) -> str | None:
    if path == root:
        return "."
    above = root.rstrip("/") + "/"
    return path[len(above) :] if path.startswith(above) else None


class Globs:
    """A list of globs. A list that is too long to compile raises `ValueError`."""

    def __init__(self, globs: Sequence[str], *, ignore_case: bool = False) -> None:
        self._globs = tuple(glob for glob in globs if not glob.startswith(EXCEPT))
        spared = [glob.removeprefix(EXCEPT) for glob in globs if glob.startswith(EXCEPT)]
        whole, among = re2.Set.FullMatchSet, re2.Set.SearchSet
        self._match = _compiled(whole, map(_pattern, self._globs), ignore_case=ignore_case)
        self._spare = _compiled(whole, map(_pattern, spared), ignore_case=ignore_case)
        screened = (*map(_pattern_among, self._globs), _UNRESOLVED)
        self._screen = _compiled(among, screened, ignore_case=ignore_case)
        self._spares = bool(spared)
        self._overlaps = Overlaps(self._globs)

    def miss(self, paths: Iterable[str], *, resolved: bool = False) -> bool:
        """Return True if no glob matches any path. False means that one may match (cheap check).

        Unless `resolved` is set, also return False if a path must be resolved first.
        """
        hits = self._screen("\0".join(("", *paths, "")).encode("utf-8", "replace"))
        return not hits or (resolved and hits == [len(self._globs)])

    def find(self, place: PathTarget) -> str | None:
        """Return the first glob that matches the whole path, or else its part below the root."""
        if not self._globs:
            return None
        hits = self._among(place.path)
        if not hits and place.local is not None:
            hits = self._among(place.local)
        if not hits and place.pattern:
            return self._overlap(place)
        return self._globs[min(hits)] if hits else None

    def _overlap(self, place: PathTarget) -> str | None:
        """Return a glob that may match a file of a pattern."""
        if self._spares and self._spare(place.path.encode("utf-8", "replace")):
            return None
        inside = place.local is not None or place.path[:1] not in {"/", "~"}
        return self._overlaps.find(place.path.replace("$", "*"), inside)

    def _among(self, path: str) -> list[int] | None:
        written = path.encode("utf-8", "replace")
        hits = self._match(written)
        return None if hits and self._spares and self._spare(written) else hits


def _pattern(glob: str) -> str:
    parts = (_MEANING.get(part) or re2.escape(part) for part in _WILDCARD.split(glob))
    return f"(?:{''.join(parts)})"


def _pattern_among(glob: str) -> str:
    inner = glob.removeprefix("**/").removesuffix("/**")
    parts = (_MEANING_AMONG.get(part) or re2.escape(part) for part in _WILDCARD.split(inner))
    begin = r"[/\x00]" if glob.startswith("**/") else r"\x00"
    end = r"[/\x00]" if glob.endswith("/**") and inner else r"\x00"
    return f"{begin}{''.join(parts)}{end}"


def _compiled(
    together: Callable[[re2.Options], re2.Set], patterns: Iterable[str], *, ignore_case: bool
) -> Matcher:
    options = re2.Options()
    options.case_sensitive = not ignore_case
    options.dot_nl = True
    options.log_errors = False
    patterns_set = together(options)
    try:
        for pattern in patterns:
            patterns_set.Add(pattern)
        patterns_set.Compile()
    except re2.error as exc:
        raise ValueError("the globs are too many or too long: use fewer or shorter ones") from exc
    match: Matcher = patterns_set.Match
    return match
