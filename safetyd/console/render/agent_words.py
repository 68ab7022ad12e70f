"""Words of an agent as rows, each behind a bar, with what is to be seen of them.

Who shows them colours them; who cannot has the signs: a diff its own, a part of a command its line
below the text.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from safetyd.console.line_folding import BEGINS, barred
from safetyd.core.text.diff_lines import diff_lines
from safetyd.core.text.visible_text import visible

Pieces = Sequence[
    tuple[str, bool]
]  # of a text, and of each whether it is a part that does not pass


class CardMark(NamedTuple):
    """What is to be seen of a part of a row: a level, or a part of a command that does not pass."""

    start: int
    end: int
    role: str


class CardRow(NamedTuple):
    """A row of a card, and what it is: a title, a heading, or a line of a diff by its kind."""

    text: str
    role: str = ""
    marks: tuple[CardMark, ...] = ()


class AgentWords(NamedTuple):
    """Words of an agent under a title, line by line."""

    title: str
    lines: tuple[Pieces, ...]
    diff: bool = False


def agent_words(title: str, pieces: Pieces, *, diff: bool = False) -> AgentWords:
    """Return the lines of a text in pieces; one piece may have several."""
    lines: list[list[tuple[str, bool]]] = [[]] if pieces else []
    for piece, mark in pieces:
        first, *others = piece.split("\n")
        lines[-1].append((first, mark))
        lines += ([(other, mark)] for other in others)
    return AgentWords(title, tuple(lines), diff)


def word_rows(words: AgentWords, columns: int, most: int | None = None) -> Iterator[CardRow]:
    """Yield the lines behind bars, with what is marked of them."""
    kinds = _kinds(words) if words.diff else [""] * len(words.lines)
    for line, kind in zip(words.lines[:most], kinds, strict=False):
        shown, parts = "", []
        for piece, marked in line:
            seen = visible(piece)
            parts += [(len(shown), len(shown) + len(seen))] if marked else []
            shown += seen
        at = -len(BEGINS)
        for row in barred(shown, columns):
            yield CardRow(row, kind, tuple(_on_row(parts, at, len(row))))
            at += len(row) - len(BEGINS)


def _on_row(parts: Sequence[tuple[int, int]], at: int, length: int) -> Iterator[CardMark]:
    """Yield what of a line's parts is on the row that begins, with its bar, at `at` of it."""
    for start, end in parts:
        first, last = max(start - at, len(BEGINS)), min(end - at, length)
        if first < last:
            yield CardMark(first, last, "part")


def _kinds(diff: AgentWords) -> list[str]:
    """Return what each line of a diff does."""
    text = "\n".join("".join(piece for piece, _ in line) for line in diff.lines)
    return ["" if line.kind == "same" else line.kind for line in diff_lines(text)]
