"""awk programs as tokens: strings, regular expressions, names, numbers and signs."""

import re
from typing import Final, NamedTuple

from safetyd.core.shell.reading import HOLE

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER: Final = re.compile(r"[0-9.][0-9A-Za-z.]*")
_SIGNS: Final = (
    *("**=", "|&", ">>", "&&", "||", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "%=", "^="),
    *("++", "--", "!~", "**", "::"),
)
_SINGLE: Final = frozenset("{}()[];,+-*/%^!<>|?:~$=@&")
_ESCAPES: Final = {'"': '"', "\\": "\\", "/": "/", "n": "\n", "t": "\t", "\n": ""}
_BEFORE_PATTERN: Final = frozenset(
    {"print", "printf", "return", "else", "do", "exit", "in", "case", "delete"}
)
_CONDITIONS: Final = frozenset({"if", "while", "for", "switch"})
_OPERANDS: Final = frozenset({"]", "++", "--"})


class Token(NamedTuple):
    kind: str  # "string", "regex", "name", "number", "sign" or "end" for a line's end
    text: str


class Unreadable(Exception):
    """It is no program of awk."""


class Tokenizer:
    """Reads one program; `partners` has, for each bracket, where the other one stands."""

    def __init__(self, program: str) -> None:
        self._text = program
        self._at = 0
        self._open: list[int] = []
        self._divides = False  # whether a slash would divide
        self.tokens: list[Token] = []
        self.partners: dict[int, int] = {}

    def read(self) -> None:
        while self._at < len(self._text):
            self._one(self._text[self._at])
        if self._open:
            raise Unreadable

    def _one(self, char: str) -> None:
        if char == "#":
            end = self._text.find("\n", self._at)
            self._at = len(self._text) if end < 0 else end
        elif char == "\n":
            self._add("end", char, 1, divides=False)
        elif char.isspace() or self._text.startswith(("\\\n", "\\\r\n"), self._at):
            self._at += 1 if char != "\\" else 2
        elif char == '"':
            self._string()
        elif char == "/" and not self._divides:
            self._regex()
        elif found := _NAME.match(self._text, self._at):
            name = found[0]
            self._add("name", name, len(name), divides=name not in _BEFORE_PATTERN)
        elif found := _NUMBER.match(self._text, self._at):
            self._add("number", found[0], len(found[0]), divides=True)
        else:
            self._sign(char)

    def _add(self, kind: str, text: str, length: int, *, divides: bool) -> None:
        self.tokens.append(Token(kind, text))
        self._at += length
        self._divides = divides

    def _string(self) -> None:
        parts: list[str] = []
        at = self._at + 1
        while (char := self._text[at : at + 1]) != '"':
            if char in {"", "\n"}:
                raise Unreadable
            if char == "\\":
                at += 1
                char = _ESCAPES.get(self._text[at : at + 1], HOLE)
            parts.append(char)
            at += 1
        self._add("string", "".join(parts), at + 1 - self._at, divides=True)

    def _regex(self) -> None:
        at, opened = self._at + 1, 0  # where a set of letters began
        while (char := self._text[at : at + 1]) != "/" or opened:
            if char in {"", "\n"}:
                raise Unreadable
            if char == "\\":
                at += 1
            elif char == "[" and not opened:
                opened = at
                at += self._text[at + 1 : at + 2] == "^"
                at += self._text[at + 1 : at + 2] == "]"
            elif char == "]":
                opened = 0
            at += 1
        self._add("regex", "", at + 1 - self._at, divides=True)

    def _sign(self, char: str) -> None:
        sign = next((sign for sign in _SIGNS if self._text.startswith(sign, self._at)), char)
        if sign == char and char not in _SINGLE:
            raise Unreadable
        here = len(self.tokens)
        divides = sign in _OPERANDS
        if sign in {"(", "[", "{"}:
            self._open.append(here)
        elif sign in {")", "]", "}"}:
            divides = self._close(sign, here)
        self._add("sign", sign, len(sign), divides=divides)

    def _close(self, sign: str, here: int) -> bool:
        """Return whether a slash after it would divide: not after a condition or a block."""
        if not self._open:
            raise Unreadable
        begin = self._open.pop()
        if self.tokens[begin].text + sign not in {"()", "[]", "{}"}:
            raise Unreadable
        self.partners[begin], self.partners[here] = here, begin
        before = self.tokens[begin - 1] if begin else Token("end", "")
        return sign == "]" or (sign == ")" and before.text not in _CONDITIONS)
