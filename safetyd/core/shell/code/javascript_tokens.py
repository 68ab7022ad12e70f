"""Splits JavaScript into tokens: strings, dotted names, numbers, patterns and signs."""

import re
import sys
from typing import Final, NamedTuple

from safetyd.core.shell.reading import HOLE

MAX_TOKENS: Final = 6_000
MAX_PIECES: Final = 600
MAX_LEVELS: Final = 12  # levels of code inside template strings

_NAME: Final = re.compile(r"[A-Za-z_$#@][\w$]*(?:\s*(?:\?\.|\.(?!\.))\s*[A-Za-z_$#@][\w$]*)*")
_NUMBER: Final = re.compile(r"\d\w*(?:\.\d\w*)?")
_SIGN: Final = re.compile(r"\.\.\.|=>|===|!==|==|!=|<=|>=|&&|\|\||.", re.DOTALL)
_SKIPPED: Final = re.compile(r"[ \t\r\f\v]+|\\\n|(?://|#!)[^\n]*|/\*.*?\*/", re.DOTALL)
_PATTERN: Final = re.compile(r"/(?:[^\\/\[\n]|\\.|\[(?:[^\\\]\n]|\\.)*\])*/[a-zA-Z]*", re.DOTALL)
_PLAIN: Final = re.compile(r"[^\\$\"'`]+")
_ESCAPE: Final = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})|(.))", re.DOTALL
)
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "\n": ""}
_SURROGATES: Final = range(0xD800, 0xE000)
# A slash after one of these starts a pattern.
_KEYWORDS: Final = frozenset(
    {"return", "typeof", "case", "in", "of", "do", "else", "void", "await", "yield", "throw"}
)


class Token(NamedTuple):
    kind: str  # "string", "name", "number", "sign", "pattern" or "end" (of a statement)
    text: str = ""


class Unreadable(Exception):
    """The text is not JavaScript."""


class TooLong(Exception):
    """The text has too many tokens, or too many levels of code in strings."""


class JavascriptTokenizer:
    """Splits a text into tokens. `pieces` has the tokens of the text and of its templates."""

    def __init__(self, text: str, level: int = 0, begin: int = 0) -> None:
        self._text = text
        self._at = begin
        self._level = level
        self._tokens: list[Token] = []
        self.pieces: list[list[Token]] = [self._tokens]

    def read(self, *, inner: bool = False) -> int:
        """Read up to the end, or to the closing brace of `inner` code. Return that position."""
        if self._level > MAX_LEVELS:
            raise TooLong
        opened = 0
        while self._at < len(self._text):
            char = self._text[self._at]
            if inner and char == "}" and not opened:
                return self._at
            opened += (char == "{") - (char == "}")
            self._one(char)
            if len(self._tokens) > MAX_TOKENS:
                raise TooLong
        if inner:
            raise Unreadable
        return self._at

    def _one(self, char: str) -> None:
        text, at = self._text, self._at
        if found := _SKIPPED.match(text, at):
            self._at = found.end()
        elif text.startswith("/*", at):
            raise Unreadable
        elif char in {"\n", ";"}:
            self._add(Token("end"), at + 1)
        elif char in "\"'`":
            self._at += 1
            self._tokens.append(Token("string", self._string(char)))
        elif char == "/" and not self._follows_value():
            found = _PATTERN.match(text, at)
            if found is None:
                raise Unreadable
            self._add(Token("pattern"), found.end())
        elif found := _NAME.match(text, at):
            self._add(Token("name", "".join(found[0].split())), found.end())
        elif found := _NUMBER.match(text, at):
            self._add(Token("number", found[0]), found.end())
        elif found := _SIGN.match(text, at):  # pragma: no branch - it matches any letter
            self._add(Token("sign", found[0]), found.end())

    def _add(self, token: Token, end: int) -> None:
        self._tokens.append(token)
        self._at = end

    def _follows_value(self) -> bool:
        """Return True if a slash here is a division."""
        before = self._tokens[-1] if self._tokens else Token("end")
        if before.kind == "name":
            return before.text not in _KEYWORDS
        return before.kind in {"string", "number", "pattern"} or before.text in {")", "]", "}"}

    def _string(self, quote: str) -> str:
        """Return the string up to the closing quote, with holes for `${...}`."""
        parts: list[str] = []
        while not self._text.startswith(quote, self._at):
            if found := _PLAIN.match(self._text, self._at):
                self._at = found.end()
                parts.append(found[0])
            elif found := _ESCAPE.match(self._text, self._at):
                self._at = found.end()
                parts.append(_escaped(found))
            elif quote == "`" and self._text.startswith("${", self._at):
                parts.append(self._inner())
            elif self._text[self._at : self._at + 1] in {"", "\\"}:
                raise Unreadable
            else:
                parts.append(self._text[self._at])
                self._at += 1
        self._at += 1
        return "".join(parts)

    def _inner(self) -> str:
        """Read code in a template."""
        inner = JavascriptTokenizer(self._text, self._level + 1, self._at + 2)
        self._at = inner.read(inner=True) + 1
        self.pieces += inner.pieces
        if len(self.pieces) > MAX_PIECES:
            raise TooLong
        return HOLE


def _escaped(found: re.Match[str]) -> str:
    digits = found[1] or found[2] or found[3]
    if digits:
        code = int(digits, 16)
        return chr(code) if code <= sys.maxunicode and code not in _SURROGATES else HOLE
    return HOLE if found[4].isdigit() else _CONTROLS.get(found[4], found[4])
