"""Tokens of a script in their order: brackets, arguments, texts that are put together."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from safetyd.core.shell.code.scripts.script_syntax import Syntax
from safetyd.core.shell.code.scripts.script_tokens import Token, Unreadable
from safetyd.core.shell.reading import HOLE

MAX_PARTS: Final = 200  # of an expression

_PAIRS: Final = {")": "(", "]": "[", "}": "{"}
_NOTHING: Final = Token("end")
_ENDS: Final = frozenset({"if", "unless", "do", "and", "or", "while", "until", "for", "foreach"})
_REBINDS: Final = frozenset({"for", "foreach", "my", "our", "local", "let", "var", "const"})
_TAKES: Final = frozenset({"function", "def", "fn", "lambda", "=>", "|", "->", "catch"})
_CHANGES: Final = frozenset("+-*/.|&%<?^")
_VALUES: Final = frozenset({"name", "string", "number"})


class Phrases:
    """The tokens of one piece of code."""

    def __init__(self, tokens: list[Token], syntax: Syntax) -> None:
        self.tokens = tokens
        self.syntax = syntax
        self._partners = _partners(tokens)
        self._constants = _constants(tokens)

    def at(self, at: int) -> Token:
        return self.tokens[at] if 0 <= at < len(self.tokens) else _NOTHING

    def before(self, at: int) -> Token:
        return self.at(at - 1)

    def after(self, at: int) -> Token:
        return self.at(at + 1)

    def is_sign(self, at: int, sign: str) -> bool:
        return self.at(at) == Token("sign", sign)

    def is_value(self, at: int) -> bool:
        return self.at(at).kind in _VALUES or self.at(at).text in {")", "]"}

    def partner(self, at: int) -> int:
        """Return where the other bracket stands."""
        return self._partners[at]

    def inside(self, at: int) -> list[Token]:
        """Return what stands between a bracket and the one that closes it."""
        return self.tokens[at + 1 : self._partners[at]]

    def last(self, chain: str) -> str:
        """Return a name without its owners."""
        signs = (":", "$") if self.syntax.language == "r" else ("::", "->", ".", ":", "\\")
        for sign in signs:
            chain = chain.rpartition(sign)[2] or chain
        return chain

    def is_key(self, at: int) -> bool:
        """Say whether a name is the key of a table, not a function."""
        if self.syntax.language in {"r", "julia"}:
            return self.is_sign(at + 1, "=")
        in_braces = self.is_sign(at - 1, "{") and self.is_sign(at + 1, "}")
        return self.syntax.perl and (self.is_sign(at + 1, "=>") or in_braces)

    def is_taken_out(self, at: int) -> bool:
        """Say whether a name is only taken out of a module: `const { exec } = ...`."""
        return (
            self.syntax.language == "javascript"
            and self.before(at).text in {"{", ","}
            and self.after(at).text in {"}", ","}
        )

    def key(self, at: int) -> str | None:
        """Return the text in the brackets that begin here, if any do."""
        if self.at(at).text not in {"[", "{"}:
            return None
        inside = self.inside(at)
        if self.syntax.perl and [token.kind for token in inside] == ["name"]:
            return inside[0].text
        return self.text(inside)

    def arguments(self, at: int, *, bare: bool = False) -> list[list[Token]] | None:
        """Return what a function is given whose name stands here; None if it is not called."""
        begin, follows = at + 1, self.after(at)
        if follows == Token("sign", "("):
            return list(self._split(begin + 1, self._partners[begin]))
        if not (bare or self.syntax.bare) or self.syntax.language == "javascript":
            return None
        if self.syntax.language == "lua":
            return [[follows]] if follows.kind == "string" else None
        end = begin
        while end < len(self.tokens) and not self._ends(end):
            end = self._partners.get(end, end) + 1
        return list(self._split(begin, end))

    def _ends(self, at: int) -> bool:
        token = self.tokens[at]
        return token.kind == "end" or (
            token.text in _ENDS
            if token.kind == "name"
            else token.kind == "sign" and token.text in _PAIRS
        )

    def _split(self, begin: int, end: int) -> Iterator[list[Token]]:
        at = start = begin
        while at < end:
            if self.is_sign(at, ","):
                yield self.tokens[start:at]
                start = at + 1
            at = self._partners.get(at, at) + 1
        if start < end:
            yield self.tokens[start:end]

    def text(self, tokens: list[Token]) -> str:
        """Return the text that tokens come to, with holes for what is not known."""
        tokens = [token for token in tokens if token.kind != "end"]
        if len(tokens) > 1 and tokens[0].kind == "name" and tokens[1] == Token("sign", "="):
            tokens = tokens[2:]
        parts = [self._part(token) for token in tokens[:MAX_PARTS]]
        whole = "".join(parts) if len(tokens) <= MAX_PARTS else HOLE
        while HOLE * 2 in whole:
            whole = whole.replace(HOLE * 2, HOLE)
        return whole or HOLE

    def _part(self, token: Token) -> str:
        if token.kind == "string":
            return token.text
        if token.kind == "name":
            return self._constants.get(token.text, HOLE)
        joins = token.kind == "sign" and (token.text in self.syntax.joins or token.text in "()")
        return "" if joins else HOLE

    def words(self, tokens: list[Token]) -> list[str]:
        """Return the texts of a list, or the one text."""
        opening = next((at for at, each in enumerate(tokens) if each.text in {"[", "("}), None)
        listed = opening is not None and (
            tokens[0].text == "[" or tokens[max(opening - 1, 0)] == Token("name", "c")
        )
        if opening is None or not listed:
            return [self.text(tokens)]
        inner = Phrases(tokens[opening + 1 : -1], self.syntax)
        return [inner.text(each) for each in inner._split(0, len(inner.tokens))]

    def modules(self) -> Iterator[str]:
        """Yield the modules that JavaScript loads by their names, or may load."""
        for at, token in enumerate(self.tokens):
            if token.kind == "string" and token.text.endswith("child_process"):
                yield token.text
            if token.kind == "name" and self.last(token.text) in {"require", "import", "from"}:
                given = self.arguments(at) or [[self.after(at)]]
                yield self.text(given[0]).removeprefix("npm:")


def _partners(tokens: list[Token]) -> dict[int, int]:
    partners: dict[int, int] = {}
    opened: list[int] = []
    for at, token in enumerate(tokens):
        if token.kind != "sign":
            continue
        if token.text in {"(", "[", "{"}:
            opened.append(at)
        elif token.text in _PAIRS:
            if not opened or tokens[opened[-1]].text != _PAIRS[token.text]:
                raise Unreadable
            begin = opened.pop()
            partners[begin], partners[at] = at, begin
    if opened:
        raise Unreadable
    return partners


def _constants(tokens: list[Token]) -> dict[str, str]:
    """Return the texts of names to which one is assigned, once, and nothing else."""
    if any(token.kind in {"name", "sign"} and token.text in _TAKES for token in tokens):
        return {}
    padded = [_NOTHING, *tokens, _NOTHING, _NOTHING, _NOTHING]
    assigned: Counter[str] = Counter()
    texts: dict[str, str] = {}
    for at, token in enumerate(padded[:-3]):
        if token.kind != "name":
            continue
        sign, value, end = padded[at + 1 : at + 4]
        each = sign.kind == "name" and sign.text in {"of", "in"}
        rebound = each or (padded[at - 1].text in _REBINDS and sign.text != "=")
        changed = sign.kind == "sign" and sign.text in _CHANGES and value.text in {"=", "<"}
        assigned[token.text] += sign.text == "=" or 2 * (rebound or changed)
        if sign.text == "=" and value.kind == "string" and (end.kind == "end" or end.text == ","):
            texts[token.text] = value.text
    return {name: text for name, text in texts.items() if assigned[name] == 1}
