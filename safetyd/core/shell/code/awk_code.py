"""Analyses awk programs by their tokens.

awk runs commands with `system` and `|`, and writes files with `>` in a print.
"""

import re
from collections import Counter
from itertools import pairwise
from typing import Final, NamedTuple

from safetyd.core.shell.code.code_builder import CodeBuilder
from safetyd.core.shell.reading import HOLE, Access, Code, Effect, one_hole, word_set

MAX_PARTS: Final = 200  # of an expression

_TOKEN: Final = re.compile(
    r"""
      \#[^\n]*|[^\S\n]+|\\\r?\n
    | (?P<end>\n)
    | (?P<string>"(?:[^"\\\n]|\\.)*+")
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>[0-9.][0-9A-Za-z.]*)
    | (?P<sign>\*\*=|\|&|>>|&&|\|\||[=!<>+*/%^-]=|\+\+|--|!~|\*\*|::|[]{}()[;,+*/%^!<>|?:~$=@&-])
    """,
    re.VERBOSE | re.DOTALL,
)
_REGEX: Final = re.compile(
    r"(?P<regex>/(?:[^/\\\n\[]|\\.|\[\^?+\]?+(?:[^]\\\n]|\\.)*+\])*+/)", re.DOTALL
)
_escape = re.compile(r"\\(.)", re.DOTALL).sub
_ESCAPES: Final = {'"': '"', "\\": "\\", "/": "/", "n": "\n", "t": "\t", "\n": ""}
_BEFORE_PATTERN: Final = frozenset(
    {"print", "printf", "return", "else", "do", "exit", "in", "case", "delete"}
)
_CONDITIONS: Final = frozenset({"if", "while", "for", "switch"})
_REDIRECTIONS: Final = frozenset({">", ">>", "|", "|&"})
_PRINTS: Final = frozenset({"print", "printf"})
_PIPES: Final = frozenset({"|", "|&"})
_ENDS: Final = frozenset({";", "}", "{", ")", "]", ",", "&&", "||", "==", "!=", "<=", ">=", "~"})
_AFTER: Final = _ENDS | _REDIRECTIONS
_BEGINS: Final = word_set("""
    ; { } ( [ , && || = == != ? : | |& return ! print printf
""")
_CONTINUES: Final = frozenset({",", "&&", "||", "{", "do", "else"})
_ASSIGNS: Final = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "^=", "**=", "++", "--"})
# Names that can change a variable without an assignment.
_CHANGES: Final = frozenset(
    {"sub", "gsub", "getline", "split", "patsplit", "match", "function", "func"}
)


class _Token(NamedTuple):
    kind: str  # "string", "regex", "name", "number", "sign" or "end" for the end of a line
    text: str


class _Unreadable(Exception):
    """The text is not valid awk."""


def read_awk(program: str) -> Code:
    builder = CodeBuilder()
    tokenizer = _Tokenizer(program)
    try:
        tokenizer.read()
    except _Unreadable:
        builder.find(Effect.UNKNOWN, "cannot be analysed: it is not valid awk")
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
                    self._builder.find(Effect.UNKNOWN, "loads or evaluates other code")

    def _print(self, at: int) -> None:
        """Record the targets of `>` and `|`. Inside brackets these signs are operators."""
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
            self._builder.find(Effect.SECRETS, "prints all environment variables")
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
        """Return the text of the expression that starts here."""
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
    """Return the values of variables that are assigned exactly once, from a string."""
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
    """Splits a program into tokens. `partners` maps each bracket to its partner."""

    def __init__(self, program: str) -> None:
        self._text = program
        self._open: list[int] = []
        self.tokens: list[_Token] = []
        self.partners: dict[int, int] = {}

    def read(self) -> None:
        at, divides = 0, False  # `divides` is True if a slash would be a division
        while at < len(self._text):
            pattern = _TOKEN if divides or self._text[at] != "/" else _REGEX
            found = pattern.match(self._text, at)
            if found is None:
                raise _Unreadable
            at = found.end()
            kind, text = found.lastgroup or "", found[0]
            if kind == "sign":
                divides = self._sign(text)
            elif kind == "name":
                divides = text not in _BEFORE_PATTERN
            elif kind:
                divides = kind != "end"
            if kind == "string":
                text = _escape(lambda found: _ESCAPES.get(found[1], HOLE), text[1:-1])
            if kind:
                self.tokens.append(_Token(kind, "" if kind == "regex" else text))
        if self._open:
            raise _Unreadable

    def _sign(self, sign: str) -> bool:
        """Match brackets. Return True if a slash after the sign is a division."""
        here = len(self.tokens)
        if sign in {"(", "[", "{"}:
            self._open.append(here)
        elif sign in {")", "]", "}"}:
            return self._close(sign, here)
        return sign in {"++", "--"}

    def _close(self, sign: str, here: int) -> bool:
        """Match a closing bracket. Return True if a slash after it is a division."""
        if not self._open:
            raise _Unreadable
        begin = self._open.pop()
        if self.tokens[begin].text + sign not in {"()", "[]", "{}"}:
            raise _Unreadable
        self.partners[begin], self.partners[here] = here, begin
        before = self.tokens[begin - 1] if begin else _Token("end", "")
        return sign == "]" or (sign == ")" and before.text not in _CONDITIONS)
