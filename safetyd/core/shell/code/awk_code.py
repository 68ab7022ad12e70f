"""awk programs, read by their tokens.

What awk runs stands after `system` and beside `|`; what it writes stands after `>` in a print.
"""

from collections import Counter
from itertools import pairwise
from typing import Final

from safetyd.core.shell.code.awk_tokens import Token, Tokenizer, Unreadable
from safetyd.core.shell.code.code_builder import CodeBuilder
from safetyd.core.shell.code.secret_names import looks_secret
from safetyd.core.shell.reading import HOLE, Access, Code, Effect

MAX_PARTS: Final = 200  # of an expression

_OUTPUTS: Final = frozenset({"/dev/stdout", "/dev/stderr", "/dev/stdin", "-", "/dev/null"})
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


def read_awk(program: str) -> Code:
    builder = CodeBuilder()
    tokenizer = Tokenizer(program)
    try:
        tokenizer.read()
    except Unreadable:
        builder.find(Effect.UNKNOWN, "is not readable as a program of awk")
    _Program(tokenizer.tokens, tokenizer.partners, builder).read()
    return builder.code()


class _Program:
    def __init__(self, tokens: list[Token], partners: dict[int, int], builder: CodeBuilder) -> None:
        self._tokens = tokens
        self._partners = partners
        self._builder = builder
        self._constants = _constants(tokens)

    def read(self) -> None:
        for at, token in enumerate(self._tokens):
            match token:
                case Token("name", "system") if self._is(at + 1, "("):
                    self._builder.shell(self._forward(at + 2))
                case Token("name", "print" | "printf"):
                    self._print(at + 1)
                case Token("name", "getline"):
                    self._getline(at)
                case Token("name", "ENVIRON"):
                    self._environment(at + 1)
                case Token("sign", "@"):
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
        return token in {Token("sign", ";"), Token("sign", "}"), Token("sign", ")")}

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
        elif looks_secret(name):
            self._builder.find(Effect.SECRETS, f"reads {name} from the environment")

    def _touch(self, path: str, access: Access) -> None:
        if path.startswith("/inet"):
            self._builder.find(Effect.LEAVES, "opens a connection to another machine")
        elif path not in _OUTPUTS:
            self._builder.touch(path, access)

    def _is(self, at: int, text: str) -> bool:
        return at < len(self._tokens) and self._tokens[at] == Token(
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

    def _text(self, tokens: list[Token]) -> str:
        if len(tokens) > MAX_PARTS:
            return HOLE
        parts: list[str] = []
        for before, token in pairwise([Token("end", ""), *tokens]):
            if before.text == "$":
                parts.append(HOLE)
            elif token.kind in {"string", "number"}:
                parts.append(token.text)
            elif token.kind == "name":
                parts.append(self._constants.get(token.text, HOLE))
            elif token.text not in {"(", ")"}:
                parts.append(HOLE)
        text = "".join(parts)
        while HOLE * 2 in text:
            text = text.replace(HOLE * 2, HOLE)
        return text or HOLE


def _constants(tokens: list[Token]) -> dict[str, str]:
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
        value, after = tokens[at + 2], (tokens[at + 3 : at + 4] or [Token("end", "")])[0]
        alone = assigned[name.text] == 1 and name.text not in changed
        ended = after.kind == "end" or after.text in {";", "}"}
        if name.kind == "name" and sign.text == "=" and value.kind == "string" and alone and ended:
            found[name.text] = value.text
    return found
