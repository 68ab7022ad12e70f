"""The shape of a command: its text with placeholders for parts that may vary.

Commands with the same shape can share an approval. Placeholders replace paths in the project,
numbers and commit messages. Everything else is literal: programs, options, remotes, hosts,
redirections, operators, quotes. In commands that delete, send or install something, nothing is
replaced.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from safetyd.core.shell import places
from safetyd.core.shell.places import Project
from safetyd.core.shell.reading import HOLE, Access, Blank, Effect, Finding
from safetyd.core.shell.scope import Command
from safetyd.core.shell.words import Word
from safetyd.core.text.patterns import literally

PATH: Final = f"{HOLE}path{HOLE}"
NUMBER: Final = f"{HOLE}number{HOLE}"
MESSAGE: Final = f"{HOLE}message{HOLE}"

_IN_WORDS: Final = {
    PATH: "<a path in the project>",
    NUMBER: "<a number>",
    MESSAGE: "<a message>",
}
_BLANK: Final = re.compile(f"({PATH}|{NUMBER}|{MESSAGE})")
_PATTERNS: Final = {
    PATH: r"\w[\w.+-]*(?:/\w[\w.+-]*)*",  # no part of the path starts with a dot
    NUMBER: r"[0-9]+",
    MESSAGE: r"(?:'[^']*'|\"[^\"$`\\]*\")",
}
_MESSAGES: Final = frozenset({"-m", "--message"})
_OF_MESSAGES: Final = frozenset({"commit", "tag", "stash", "notes"})
_OTHER: Final = frozenset(":@=,{}~$%")
_OPEN: Final = frozenset({Effect.READ, Effect.WORK, Effect.UNKNOWN})


def blanks(command: Command, found: Sequence[Finding], project: Project) -> Iterator[Blank]:
    """Yield the parts of a simple command that may vary between similar commands."""
    if not command.words or not all(finding.effect in _OPEN for finding in found):
        return
    if len(command.words) == 1:
        return
    files: dict[str, str] = {}
    known = True
    for finding in found:
        known = known and finding.passes
        for touch in finding.touches:
            if touch.access is Access.DELETE:
                return
            files[touch.given] = touch.path
    first, second = command.words[:2]
    commits = first.text == "git" and second.text in _OF_MESSAGES
    before = ""
    for word in command.words[1:]:
        if word.inner >= 0 and (
            kind := (MESSAGE if commits and before in _MESSAGES and word.quoted else "")
            or _number(word, known=known)
            or _path(word, files.get(word.text), project)
        ):
            yield Blank(word.start, word.end, kind)
        before = word.text


def filled(text: str, listed: Sequence[Blank]) -> str:
    """Return a command with placeholders for its blanks."""
    if not listed and text.isascii():
        return text
    written, at, parts = text.encode("utf-8", "replace"), 0, list[str]()
    for blank in sorted(set(listed)):
        if blank.start < at:
            continue
        parts += [written[at : blank.start].decode("utf-8", "replace"), blank.kind]
        at = blank.end
    return "".join((*parts, written[at:].decode("utf-8", "replace")))


def in_words(shape: str) -> str:
    """Return a shape with readable placeholders."""
    for kind, words in _IN_WORDS.items():
        shape = shape.replace(kind, words)
    return shape


def pattern(shape: str) -> str:
    """Return an ASCII pattern that matches exactly the commands of a shape."""
    parts = _BLANK.split(shape)
    return f"(?-i)^{''.join(_PATTERNS.get(part) or literally(part) for part in parts)}$"


def _number(word: Word, *, known: bool) -> str:
    return NUMBER if known and word.text.isascii() and word.text.isdecimal() else ""


def _path(word: Word, path: str | None, project: Project) -> str:
    """Return the placeholder if a word is certainly a file of the project, else an empty string."""
    text = word.text
    if path is None or word.quoted or not word.fixed or not _OTHER.isdisjoint(text):
        return ""
    plain = "/" in text or "." in text[1:]
    return PATH if plain and places.is_inside(path, project) else ""
