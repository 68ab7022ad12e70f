"""JavaScript tokens in context: brackets, arguments, joined strings."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from safetyd.core.shell.code.javascript_tokens import Token, Unreadable
from safetyd.core.shell.reading import HOLE, one_hole

MAX_PARTS: Final = 200  # of an expression

_PAIRS: Final = {")": "(", "]": "[", "}": "{"}
_NOTHING: Final = Token("end")
_REBINDS: Final = frozenset({"for", "let", "var", "const"})
_TAKES: Final = frozenset({"function", "=>", "catch"})
_CHANGES: Final = frozenset("+-*/|&%<?^")


class Phrases:
    """The tokens of one piece of code."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self._partners = _partners(tokens)
        self._constants = _constants(tokens)

    def at(self, at: int) -> Token:
        return self.tokens[at] if 0 <= at < len(self.tokens) else _NOTHING

    def is_sign(self, at: int, sign: str) -> bool:
        return self.at(at) == Token("sign", sign)

    def is_value(self, at: int) -> bool:
        return self.at(at).kind in {"name", "string", "number"} or self.at(at).text in {")", "]"}

    def partner(self, at: int) -> int:
        """Return the position of the other bracket."""
        return self._partners[at]

    def inside(self, at: int) -> list[Token]:
        """Return the tokens between a bracket and its partner."""
        return self.tokens[at + 1 : self._partners[at]]

    def is_imported(self, at: int) -> bool:
        """Return True if a name is only imported, as in `const { exec } = ...`."""
        return self.at(at - 1).text in {"{", ","} and self.at(at + 1).text in {"}", ","}

    def key(self, at: int) -> str:
        """Return the text in the brackets that start here."""
        return self.text(self.inside(at)) if self.is_sign(at, "[") else HOLE

    def arguments(self, at: int) -> list[list[Token]] | None:
        """Return the arguments of the function named here, or None if it is not called."""
        if not self.is_sign(at + 1, "("):
            return None
        return list(self._split(at + 2, self._partners[at + 1]))

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
        """Return the value of a string expression, with holes for unknown parts."""
        tokens = [token for token in tokens if token.kind != "end"]
        if len(tokens) > 1 and tokens[0].kind == "name" and tokens[1] == Token("sign", "="):
            tokens = tokens[2:]
        parts = [self._part(token) for token in tokens[:MAX_PARTS]]
        return (one_hole("".join(parts)) if len(tokens) <= MAX_PARTS else HOLE) or HOLE

    def _part(self, token: Token) -> str:
        if token.kind == "string":
            return token.text
        if token.kind == "name":
            return self._constants.get(token.text, HOLE)
        return "" if token.kind == "sign" and token.text in {"+", "(", ")"} else HOLE

    def words(self, tokens: list[Token]) -> list[str]:
        """Return the strings of a list, or a single string as a list."""
        if tokens[:1] != [Token("sign", "[")]:
            return [self.text(tokens)]
        inner = Phrases(tokens[1:-1])
        return [inner.text(each) for each in inner._split(0, len(inner.tokens))]

    def modules(self) -> Iterator[str]:
        """Yield the modules that the code loads or may load."""
        for at, token in enumerate(self.tokens):
            if token.kind == "string" and token.text.endswith("child_process"):
                yield token.text
            if token.kind == "name" and last(token.text) in {"require", "import", "from"}:
                given = self.arguments(at) or [[self.at(at + 1)]]
                yield self.text(given[0]).removeprefix("npm:")


def last(chain: str) -> str:
    """Return the last part of a dotted name."""
    return chain.rpartition(".")[2]


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
    """Return the values of variables that are assigned exactly once, from a string."""
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
        changed = sign.kind == "sign" and sign.text[0] in _CHANGES and value.text in {"=", "<"}
        assigned[token.text] += sign.text == "=" or 2 * (rebound or changed)
        if sign.text == "=" and value.kind == "string" and (end.kind == "end" or end.text == ","):
            texts[token.text] = value.text
    return {name: text for name, text in texts.items() if assigned[name] == 1}
