"""The text of a command as a tree, or the reason why it cannot be read."""

import re
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

MAX_BYTES: Final = 64 * 1024

# No quote, operator, expansion, glob or second line: splitting at blanks is all there is to it.
_is_plain = re.compile(r"[A-Za-z0-9_./:@,+%-][A-Za-z0-9_./:=@,+% -]*\Z").match
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_KEYWORDS: Final = frozenset(
    {
        *("if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case"),
        *("esac", "in", "select", "function", "export", "declare", "local", "readonly"),
        *("typeset", "unset"),
    }
)
_parser = Parser(Language(tree_sitter_bash.language()))


class Unreadable(Exception):
    """Nobody can say what a command does. Its words complete "it ..."."""


def plain_words(text: str) -> list[str] | None:
    """Split a command that has no syntax; None if it has any."""
    if not _is_plain(text):
        return None
    words = text.split()
    first = words[0] if words else ""
    return None if not words or "=" in first or first in _KEYWORDS else words


def tree(text: bytes) -> Node:
    """Return the root of the tree of a text."""
    if len(text) > MAX_BYTES:
        raise Unreadable(f"is longer than {MAX_BYTES // 1024} KiB")
    root = _parser.parse(text).root_node
    if root.has_error:
        raise Unreadable("cannot be read: its quotes, brackets or operators do not fit together")
    return root


def check(text: str) -> None:
    """Refuse what a terminal or a reader would see differently than a shell."""
    if found := _CONTROL.search(text):
        raise Unreadable(f"cannot be read: it has the control character U+{ord(found[0]):04X}")
