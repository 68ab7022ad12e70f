"""Paths as agents write them: resolved by their words alone, and matched by globs.

No file is looked at, so a symbolic link may lead elsewhere. In a glob `*` and `?` stay within one
name, `**` stands for any number of directories, and everything else stands for itself.
"""

import posixpath
import re
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import re2

_WILDCARD: Final = re.compile(r"(/\*\*\Z|\*\*/|\*\*|\*|\?)")
_MEANING: Final = {
    "/**": "(?:/.*)?",  # the directory itself as well
    "**/": "(?:.*/)?",
    "**": ".*",
    "*": "[^/]*",
    "?": "[^/]",
}

Matcher = Callable[[str], object]


class Place(msgspec.Struct, frozen=True, gc=False):
    """Where one path of a proposal leads."""

    given: str
    path: str  # without `.` and `..`; absolute, if that can be known
    local: str | None = None  # the same from the project's root, if it lies inside
    opaque: bool = False  # only a shell could tell where it leads


def place(given: str, root: str) -> Place:
    """Resolve a path; a relative one begins at `root`, which is absolute or empty."""
    if given.startswith("~") or "$" in given:
        return Place(given, _plain(given), opaque=True)
    path = _plain(posixpath.join(root, given))
    return Place(given, path, _local(path, _plain(root)) if root else None)


def _plain(path: str) -> str:
    plain = posixpath.normpath(path)
    return plain[1:] if plain.startswith("//") else plain


def _local(path: str, root: str) -> str | None:
    if path == root:
        return "."
    above = root.rstrip("/") + "/"
    return path[len(above) :] if path.startswith(above) else None


class Globs:
    """A list of globs. One that is too long to be looked for is a `ValueError`."""

    def __init__(self, globs: Sequence[str], *, ignore_case: bool = False) -> None:
        patterns = [_pattern(glob) for glob in globs]
        self._any = _compiled("|".join(patterns), ignore_case=ignore_case)
        self._each = [
            (glob, _compiled(pattern, ignore_case=ignore_case))
            for glob, pattern in zip(globs, patterns, strict=True)
        ]

    def find(self, place: Place) -> str | None:
        """Return the first glob that matches the path, whole or from the project's root."""
        if not self._each:
            return None
        for path in (place.path, place.local):
            if path is not None and self._any(path):
                return next(glob for glob, match in self._each if match(path))
        return None


def _pattern(glob: str) -> str:
    parts = (_MEANING.get(part) or re2.escape(part) for part in _WILDCARD.split(glob))
    return f"(?:{''.join(parts)})"


def _compiled(pattern: str, *, ignore_case: bool) -> Matcher:
    options = re2.Options()
    options.case_sensitive = not ignore_case
    options.dot_nl = True
    options.log_errors = False
    try:
        match: Matcher = re2.compile(pattern, options).fullmatch
    except re2.error as exc:
        raise ValueError("the globs are too many or too long: use fewer or shorter ones") from exc
    return match
