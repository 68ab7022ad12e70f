"""awk programs, read by their tokens.

What awk runs stands after `system` and beside `|`; what it writes stands after `>` in a print.
"""

import re
from collections import Counter
from itertools import pairwise
from typing import Final, NamedTuple

from safetyd.core.shell.code.code_builder import CodeBuilder
from safetyd.core.shell.reading import HOLE, Access, Code, Effect, one_hole

MAX_PARTS: Final = 200  # of an expression

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

_REDIRECTIONS: Final = frozenset({">", ">>", "|", "|&"})
_PRINTS: Final = frozenset({"print", "printf"})
_PIPES: Final = frozenset({"|", "|&"})
_ENDS: Final = frozenset({";", "}", "{", ")", "]", ",", "&&", "||", "==", "!=", "<=", ">=", "~"})
_AFTER: Final = _ENDS | _REDIRECTIONS
_BEGINS: Final = frozenset(
    {";", "{", "}", "(", "[", ",", "&&", "||", "=", "==", "!=", "?", ":", "|", "|&", "return", "!"}
    | {"print", "printf"}
)
_CONTINUES: Final = frozenset({",", "&&", "||", "{", "do", "else"})
_ASSIGNS: Final = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "^=", "**=", "++", "--"})
# With one of them in a program, a name may get another value than by an assignment.
_CHANGES: Final = frozenset(
    {"sub", "gsub", "getline", "split", "patsplit", "match", "function", "func"}
)


class _Token(NamedTuple):
    kind: str  # "string", "regex", "name", "number", "sign" or "end" for a line's end
    text: str


class _Unreadable(Exception):
    """It is no program of awk."""


def read_awk(program: str) -> Code:
    builder = CodeBuilder()
    tokenizer = _Tokenizer(program)
    try:
        tokenizer.read()
    except _Unreadable:
        builder.find(Effect.UNKNOWN, "is not readable as a program of awk")
    _Program(tokenizer.tokens, tokenizer.partners, builder).read()
    return builder.code()


class _Program:
    def __init__(
        self, tokens: list[_Token], partners: dict[int, int], builder: CodeBuilder
    ) -> None:
        self._tokens = tokens
        self._partners = partners
        self._builder = builder
        self._constants = _constants(tokens)

    def read(self) -> None:
        for at, token in enumerate(self._tokens):
            match token:
                case _Token("name", "system") if self._is(at + 1, "("):
                    self._builder.shell(self._forward(at + 2))
                case _Token("name", "print" | "printf"):
                    self._print(at + 1)
                case _Token("name", "getline"):
                    self._getline(at)
                case _Token("name", "ENVIRON"):
                    self._environment(at + 1)
                case _Token("sign", "@"):
                    self._builder.find(Effect.UNKNOWN, "runs code that its text does not show")

    def _print(self, at: int) -> None:
        """Look for what stands behind `>` and `|`; in brackets these are other signs."""
        while at < len(self._tokens) and not self._ends(at):
            sign = self._tokens[at].text if self._tokens[at].kind == "sign" else ""
            if sign in _REDIRECTIONS and not self._is(at + 1, "getline"):
                target = self._forward(at + 1)
                if sign in _PIPES:
                    self._builder.shell(target)
                else:
                    self._touch(target, Access.WRITE)
            at = self._partners.get(at, at) + 1

    def _ends(self, at: int) -> bool:
        token = self._tokens[at]
        if token.kind == "end":
            return self._tokens[at - 1].text not in _CONTINUES
        if token.kind == "name":
            return token.text in _PRINTS
        return token in {_Token("sign", ";"), _Token("sign", "}"), _Token("sign", ")")}

    def _getline(self, at: int) -> None:
        if at and self._tokens[at - 1].text in _PIPES:
            self._builder.shell(self._backward(at - 2))
        at = self._after_variable(at + 1)
        if self._is(at, "<"):
            self._touch(self._forward(at + 1), Access.READ)

    def _after_variable(self, at: int) -> int:
        if self._is(at, "$"):
            return self._partners.get(at + 1, at + 1) + 1
        if at < len(self._tokens) and self._tokens[at].kind == "name":
            return self._partners.get(at + 1, at) + 1 if self._is(at + 1, "[") else at + 1
        return at

    def _environment(self, at: int) -> None:
        if not self._is(at, "["):
            return
        name = self._forward(at + 1)
        if HOLE in name:
            self._builder.find(Effect.SECRETS, "shows every variable of the environment")
        else:
            self._builder.variable(name)

    def _touch(self, path: str, access: Access) -> None:
        if path.startswith("/inet"):
            self._builder.find(Effect.LEAVES, "opens a connection to another machine")
        else:
            self._builder.touch(path, access)

    def _is(self, at: int, text: str) -> bool:
        return at < len(self._tokens) and self._tokens[at] == _Token(
            "name" if text.isalpha() else "sign", text
        )

    def _forward(self, at: int) -> str:
        """Return the text of the expression that begins here."""
        begin, last = at, min(len(self._tokens), at + MAX_PARTS + 1)
        while at < last and not self._stops(at, _AFTER):
            at = self._partners.get(at, at) + 1
        return self._text(self._tokens[begin:at])

    def _backward(self, at: int) -> str:
        """Return the text of the expression that ends here."""
        end = at + 1
        while at >= 0 and end - at <= MAX_PARTS + 1:
            begin = self._partners.get(at, at)
            closes = begin < at and self._tokens[at].text != "}"
            if not closes and self._stops(at, _BEGINS):
                break
            at = begin - 1
        return self._text(self._tokens[at + 1 : end])

    def _stops(self, at: int, signs: frozenset[str]) -> bool:
        token = self._tokens[at]
        return token.kind == "end" or (token.kind in {"sign", "name"} and token.text in signs)

    def _text(self, tokens: list[_Token]) -> str:
        if len(tokens) > MAX_PARTS:
            return HOLE
        parts: list[str] = []
        for before, token in pairwise([_Token("end", ""), *tokens]):
            if before.text == "$":
                parts.append(HOLE)
            elif token.kind in {"string", "number"}:
                parts.append(token.text)
            elif token.kind == "name":
                parts.append(self._constants.get(token.text, HOLE))
            elif token.text not in {"(", ")"}:
                parts.append(HOLE)
        return one_hole("".join(parts)) or HOLE


def _constants(tokens: list[_Token]) -> dict[str, str]:
    """Return the texts of names to which one is assigned, once, and nothing else."""
    if any(token.kind == "name" and token.text in _CHANGES for token in tokens):
        return {}
    pairs = list(pairwise(tokens))
    assigned = Counter(
        name.text for name, sign in pairs if name.kind == "name" and sign.text in _ASSIGNS
    )
    changed = {name.text for sign, name in pairs if sign.text in {"++", "--"}}
    changed |= {name.text for name, word in pairs if word.text == "in"}
    found: dict[str, str] = {}
    for at, (name, sign) in enumerate(pairs[:-1]):
        value, after = tokens[at + 2], (tokens[at + 3 : at + 4] or [_Token("end", "")])[0]
        alone = assigned[name.text] == 1 and name.text not in changed
        ended = after.kind == "end" or after.text in {";", "}"}
        if name.kind == "name" and sign.text == "=" and value.kind == "string" and alone and ended:
            found[name.text] = value.text
    return found


class _Tokenizer:
    """Reads one program; `partners` has, for each bracket, where the other one stands."""

    def __init__(self, program: str) -> None:
        self._text = program
        self._at = 0
        self._open: list[int] = []
        self._divides = False  # whether a slash would divide
        self.tokens: list[_Token] = []
        self.partners: dict[int, int] = {}

    def read(self) -> None:
        while self._at < len(self._text):
            self._one(self._text[self._at])
        if self._open:
            raise _Unreadable

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
        self.tokens.append(_Token(kind, text))
        self._at += length
        self._divides = divides

    def _string(self) -> None:
        parts: list[str] = []
        at = self._at + 1
        while (char := self._text[at : at + 1]) != '"':
            if char in {"", "\n"}:
                raise _Unreadable
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
                raise _Unreadable
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
            raise _Unreadable
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
            raise _Unreadable
        begin = self._open.pop()
        if self.tokens[begin].text + sign not in {"()", "[]", "{}"}:
            raise _Unreadable
        self.partners[begin], self.partners[here] = here, begin
        before = self.tokens[begin - 1] if begin else _Token("end", "")
        return sign == "]" or (sign == ")" and before.text not in _CONDITIONS)
