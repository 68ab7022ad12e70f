"""The lines of a diff with their kinds, for colouring."""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from safetyd.core.text.patches import hunk_counts, read_patch

DiffKind = Literal["added", "removed", "hunk", "file", "same"]

_KINDS: Final[dict[str, DiffKind]] = {
    "+": "added",
    "-": "removed",
    "@@": "hunk",
    "diff --": "file",
    "***": "file",
    "Index:": "file",
}
_BEGINS: Final = tuple(_KINDS)


class DiffLine(NamedTuple):
    """One line, without its line break."""

    kind: DiffKind
    text: str


def holds_diff(text: str) -> bool:
    """Return True if a text is or contains a patch."""
    return bool(read_patch(text).files)


def diff_lines(text: str) -> tuple[DiffLine, ...]:
    """Return all lines of a diff with their kinds."""
    lines = text.split("\n")
    return tuple(map(DiffLine, _kinds(lines), lines))


def _kinds(lines: list[str]) -> Iterator[DiffKind]:
    """Yield the kind of each line. Inside a hunk, the first character determines it."""
    old = new = 0  # remaining lines of the hunk
    for at, line in enumerate(lines):
        sign = line[:1]
        if sign == "-" and old > 0:
            old -= 1
            yield "removed"
        elif sign == "+" and new > 0:
            new -= 1
            yield "added"
        elif sign in {"", " "} and old > 0 and new > 0:
            old, new = old - 1, new - 1
            yield "same"
        else:
            if found := hunk_counts(line):
                old, new = (int(count or 1) for count in found.groups())
            elif sign != "\\":
                old = new = 0
            yield _kind(lines, at)


def _kind(lines: list[str], at: int) -> DiffKind:
    line = lines[at]
    if not line.startswith(_BEGINS):
        return "same"
    if line.startswith("--- ") and _names_file(lines[at : at + 3]):
        return "file"
    if line.startswith("+++ ") and _names_file(lines[max(at - 1, 0) : at + 2]):
        return "file"
    return next(kind for begin, kind in _KINDS.items() if line.startswith(begin))


def _names_file(lines: list[str]) -> bool:
    """Return True if a hunk follows two file names. Otherwise they may be changed lines."""
    begins = ("--- ", "+++ ", "@@")
    return len(lines) == len(begins) and all(map(str.startswith, lines, begins))
