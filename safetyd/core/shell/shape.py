"""The shape of a command: its text with placeholders for parts that may vary.

Commands with the same shape can share an approval. Placeholders replace paths in the project,
numbers and commit messages. Everything else is literal: programs, options, remotes, hosts,
redirections, operators, quotes. In commands that delete, send or install something, nothing is
replaced.
"""

import re
from collections.abc import Container, Iterator, Sequence
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


def narrowed(shape: str, texts: Sequence[str], data: Container[str]) -> str:
    """Return an ASCII pattern for commands of a shape whose blanks resemble those of `texts`.

    If all paths in a blank are `data`, a path must be in the folder and have the extension of one
    of them. Otherwise it must be one of them. A number has at most as many digits. A blank that is
    the same in all texts is literal.
    """
    parts = _BLANK.split(shape)
    groups = (f"({_PATTERNS[part]})" if part in _PATTERNS else re.escape(part) for part in parts)
    match = re.compile("".join(groups), re.ASCII).fullmatch
    values = zip(*(found.groups() for text in texts if (found := match(text))), strict=True)
    like = [_like(kind, seen, data) for kind, seen in zip(parts[1::2], values, strict=False)]
    if len(like) < len(parts) // 2:  # a value that its placeholder does not match, such as `.x/a`
        return exactly(texts)
    blank = iter(like)
    return f"(?-i)^{''.join(next(blank) if p in _PATTERNS else literally(p) for p in parts)}$"


def exactly(texts: Sequence[str]) -> str:
    """Return an ASCII pattern that matches only these texts."""
    return f"(?-i)^(?:{'|'.join(map(literally, texts))})$"


def _like(kind: str, seen: Sequence[str], data: Container[str]) -> str:
    """Return a pattern for values like those of a blank."""
    if len(set(seen)) == 1:
        return literally(seen[0])
    if kind == NUMBER:
        return f"[0-9]{{1,{max(map(len, seen))}}}"
    if kind == MESSAGE:
        return _PATTERNS[MESSAGE]
    named = map(_beside if all(path in data for path in seen) else literally, seen)
    return f"(?:{'|'.join(dict.fromkeys(named))})"


def _beside(path: str) -> str:
    """Return a pattern for files in the folder of a path, with its extension."""
    folder, slash, name = path.rpartition("/")
    _, dot, extension = name.rpartition(".")
    named = rf"\w[\w.+-]*{literally(dot + extension)}" if dot else r"\w[\w+-]*"
    return f"{literally(folder + slash)}{named}"


def _number(word: Word, *, known: bool) -> str:
    return NUMBER if known and word.text.isascii() and word.text.isdecimal() else ""


def _path(word: Word, path: str | None, project: Project) -> str:
    """Return the placeholder if a word is certainly a file of the project, else an empty string."""
    text = word.text
    if path is None or word.quoted or not word.fixed or not _OTHER.isdisjoint(text):
        return ""
    plain = "/" in text or "." in text[1:]
    return PATH if plain and places.is_inside(path, project) else ""
