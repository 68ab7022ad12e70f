"""Scripts as tokens, in whatever language: strings, names, numbers, signs, and texts for a shell.

Code inside of strings is kept apart, in `pieces`.
"""

import re
import sys
from collections.abc import Callable
from typing import Final, NamedTuple

from safetyd.core.shell.code.scripts.script_syntax import Syntax
from safetyd.core.shell.reading import HOLE

MAX_TOKENS: Final = 6_000
MAX_PIECES: Final = 600
MAX_LEVELS: Final = 12  # of code in strings in code

_BRACKETS: Final = {"(": ")", "[": "]", "{": "}", "<": ">"}
_CLOSING: Final = frozenset(")]}")
_BLANK: Final = re.compile(r"[ \t\r\f\v]+|\\\n")
_NUMBER: Final = re.compile(r"\d[\w]*(?:\.\d\w*)?")
_SIGN: Final = re.compile(r"\.\.\.|=>|===|!==|==|!=|<=|>=|&&|\|\||=~|!~|\.\.|.", re.DOTALL)
_ESCAPE: Final = re.compile(
    r"x\{([0-9A-Fa-f]{1,6})\}|x([0-9A-Fa-f]{1,2})|u\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})|(.)",
    re.DOTALL,
)
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "\n": "", "e": "\x1b"}
_PLAIN: Final = re.compile(r"[^\\$@#{\"'`/\])}>|!,%~+^\[(<*:;.?=&-]+")
_VARIABLE: Final = re.compile(r"[$@]\$?\w+(?:->)?(?:\[[^\]\n]*\]|\{[^}\n]*\})*")
_HEREDOC: Final = re.compile(r"<<[~-]?([\"'`]?)([A-Za-z_]\w*)\1|<<<[ \t]*([\"']?)(\w+)\3")
_QUOTE_LIKE: Final = re.compile(r"(qq|qw|qx|qr|q|m|s|tr|y)(?:\s*(?![\s\w=,;)#>])|(?=#))(?!=>)")
_PERCENT: Final = re.compile(r"%([xqQwWiIr]?)(?=[^\w\s=])")
_LONG: Final = re.compile(r"\[(=*)\[")
_FLAGS: Final = re.compile(r"[a-zA-Z]*")
_HIDES: Final = re.compile(r"\(\?\??\{|#\{|@\{")
_SURROGATES: Final = range(0xD800, 0xE000)
_KEYWORDS: Final = frozenset(
    {"return", "typeof", "case", "in", "of", "and", "or", "not", "if", "unless", "while", "until"}
    | {"when", "puts", "print", "split", "grep", "map", "join", "then", "else", "do", "void", "x"}
)


class Token(NamedTuple):
    kind: str  # "string", "shell", "name", "number", "sign", "regex", "hidden" or "end"
    text: str = ""


class Unreadable(Exception):
    """It is no script of its language."""


class TooLong(Exception):
    """It has more tokens than anybody reads."""


class ScriptTokenizer:
    """Reads one script; `pieces` has its code and that in its strings, each as tokens."""

    def __init__(self, text: str, syntax: Syntax, level: int = 0, begin: int = 0) -> None:
        self._text = text
        self._at = begin
        self._syntax = syntax
        self._level = level
        self._tokens: list[Token] = []
        self.pieces: list[list[Token]] = [self._tokens]
        self._special: dict[str, Callable[[], bool]] = {
            "#": self._comment,
            "/": lambda: self._comment() or self._regex(),
            "-": self._comment,
            "=": self._pod,
            "<": self._heredoc,
            "%": self._percent,
            "[": self._long_string,
        }

    def read(self, until: str = "") -> int:
        """Read to the end, or to a bracket that closes what began before; return where that is."""
        if self._level > MAX_LEVELS:
            raise TooLong
        opened = 0
        while self._at < len(self._text):
            char = self._text[self._at]
            if char == until and not opened:
                return self._at
            if until and char == until:
                opened -= 1
            elif until and _BRACKETS.get(char) == until:
                opened += 1
            self._one(char)
            if len(self._tokens) > MAX_TOKENS:
                raise TooLong
        if until:
            raise Unreadable
        return self._at

    def _one(self, char: str) -> None:
        syntax, special = self._syntax, self._special.get(char)
        if char == "\n":
            self._at += 1
            if syntax.ends_lines:
                self._tokens.append(Token("end"))
            return
        if found := _BLANK.match(self._text, self._at):
            self._at = found.end()
            return
        if special is not None and special():
            return
        if char in syntax.quotes and not self._is_transposed(char):
            self._string(char)
            return
        if syntax.perl and (found := _QUOTE_LIKE.match(self._text, self._at)):
            self._quote_like(found[1], found.end())
            return
        found = syntax.name.match(self._text, self._at) or _NUMBER.match(self._text, self._at)
        if found:
            kind = "number" if found[0][0].isdigit() else "name"
            self._add(Token(kind, _without_blanks(found[0])), found.end())
            return
        found = _SIGN.match(self._text, self._at)
        assert found is not None  # noqa: S101 - it matches any letter
        self._add(Token("end" if char == ";" else "sign", found[0]), found.end())

    def _add(self, token: Token, end: int) -> None:
        self._tokens.append(token)
        self._at = end

    def _is_transposed(self, char: str) -> bool:
        """Say whether a quote follows a value, as in Julia's `A'`."""
        return char == "'" and self._syntax.language == "julia" and self._follows_value(blank=False)

    def _follows_value(self, *, blank: bool) -> bool:
        """Say whether what stands before is a value, so that a sign would join it with another."""
        before = self._tokens[-1] if self._tokens else Token("end")
        if before.kind == "name":
            if before.text in _KEYWORDS:
                return False
            sigil = before.text[0] in "$@%"
            spaced = blank and self._text[self._at - 1].isspace()
            tight = not self._text[self._at + 1 : self._at + 2].isspace()
            return sigil or not (spaced and tight and self._syntax.bare)
        return before.kind in {"string", "number", "regex"} or before.text in _CLOSING

    def _comment(self) -> bool:
        text, syntax = self._text, self._syntax
        for begin, end in syntax.blocks:
            if text.startswith(begin, self._at):
                found = text.find(end, self._at + len(begin))
                if found < 0:
                    raise Unreadable
                self._skip(found + len(end))
                return True
        if text.startswith(syntax.comments, self._at):
            found = text.find("\n", self._at)
            self._skip(len(text) if found < 0 else found)
            return True
        return False

    def _skip(self, end: int) -> None:
        if self._syntax.language == "php" and re.search(r"<\?|\?>", self._text[self._at : end]):
            raise Unreadable
        self._at = end

    def _pod(self) -> bool:
        """Skip documentation of Perl and Ruby, which begins a line with `=`."""
        begins = self._at == 0 or self._text[self._at - 1] == "\n"
        if not (begins and self._syntax.pod and self._text[self._at + 1 :][:1].isalpha()):
            return False
        ends = re.compile(self._syntax.pod, re.MULTILINE).search(self._text, self._at)
        self._at = ends.end() if ends else len(self._text)
        return True

    def _heredoc(self) -> bool:
        found = _HEREDOC.match(self._text, self._at) if self._syntax.heredocs else None
        if found is None or self._follows_value(blank=True):
            return False
        name, quote = found[2] or found[4], found[1] or found[3]
        begin = self._text.find("\n", found.end()) + 1
        ends = re.compile(rf"^[ \t]*{name}\b", re.MULTILINE).search(self._text, begin)
        if not begin or ends is None:
            raise Unreadable
        body = self._text[begin : ends.start()]
        inner = ScriptTokenizer(body, self._syntax, self._level + 1)
        text = inner.filled("", "'" if quote == "'" else '"')
        self.pieces += inner.pieces[1:]
        self._text = self._text[:begin] + self._text[ends.end() :]
        self._add(Token("shell" if quote == "`" else "string", text), found.end())
        return True

    def _percent(self) -> bool:
        found = _PERCENT.match(self._text, self._at) if self._syntax.language == "ruby" else None
        if found is None or self._follows_value(blank=True):
            return False
        self._at = found.end()
        kind = "shell" if found[1] == "x" else "regex" if found[1] == "r" else "string"
        self._part(kind, raw=found[1] in {"q", "w", "i"})
        return True

    def _long_string(self) -> bool:
        found = _LONG.match(self._text, self._at) if self._syntax.language == "lua" else None
        if found is None:
            return False
        end = self._text.find(f"]{found[1]}]", found.end())
        if end < 0:
            raise Unreadable
        self._add(Token("string", self._text[found.end() : end]), end + len(found[0]))
        return True

    def _regex(self) -> bool:
        if not self._syntax.patterns or self._follows_value(blank=True):
            return False
        self._at += 1
        begin, in_set = self._at, False
        while (char := self._text[self._at : self._at + 1]) != "/" or in_set:
            if char in {"", "\n"} and (not char or self._syntax.language == "javascript"):
                raise Unreadable
            in_set = self._syntax.language == "javascript" and (
                char == "[" or (in_set and char != "]")
            )
            self._at += 2 if char == "\\" else 1
        self._pattern(self._text[begin : self._at])
        self._at += 1
        self._flags()
        return True

    def _pattern(self, pattern: str) -> None:
        hides = self._syntax.language != "javascript" and _HIDES.search(pattern)
        self._tokens.append(Token("hidden" if hides else "regex"))

    def _flags(self) -> str:
        found = _FLAGS.match(self._text, self._at)
        assert found is not None  # noqa: S101 - it matches nothing as well
        self._at = found.end()
        return found[0]

    def _quote_like(self, name: str, end: int) -> None:
        """Read `q()`, `qx()`, `s///e` and their kin."""
        self._at = end
        if name in {"q", "qq", "qw", "qx"}:
            self._part("shell" if name == "qx" else "string", raw=name in {"q", "qw"})
            return
        opening = self._text[end : end + 1]
        self._pattern(self._raw_part())
        if name in {"m", "qr"}:
            self._flags()
            return
        if opening in _BRACKETS:
            while self._text[self._at : self._at + 1].isspace():
                self._at += 1
        else:
            self._at -= 1
        replacement = self._raw_part()
        evaluates = self._flags().count("e") if name == "s" else 0
        if evaluates > 1 or (not evaluates and _HIDES.search(replacement)):
            self._tokens.append(Token("hidden"))
        elif evaluates:
            inner = ScriptTokenizer(replacement, self._syntax, self._level + 1)
            inner.read()
            self.pieces += inner.pieces

    def _part(self, kind: str, *, raw: bool) -> None:
        if raw or kind == "regex":
            text = self._raw_part()
            if kind == "regex":
                self._pattern(text)
                self._flags()
            else:
                self._tokens.append(Token(kind, text))
            return
        opening = self._text[self._at : self._at + 1]
        self._at += 1
        text = self.filled(_BRACKETS.get(opening, opening), '"', opening)
        self._tokens.append(Token(kind, text))

    def _raw_part(self) -> str:
        """Return what stands between two delimiters, and go behind them."""
        opening = self._text[self._at : self._at + 1]
        closing = _BRACKETS.get(opening, opening)
        self._at += 1
        begin, opened = self._at, 1
        while opened:
            char = self._text[self._at : self._at + 1]
            if not char:
                raise Unreadable
            if char == closing:
                opened -= 1
            elif char == opening:
                opened += 1
            self._at += 2 if char == "\\" else 1
        return self._text[begin : self._at - 1]

    def _string(self, quote: str) -> None:
        triple = quote * 3 if self._syntax.language == "julia" else ""
        closing = triple if triple and self._text.startswith(triple, self._at) else quote
        self._at += len(closing)
        text = self.filled(closing, quote)
        if self._syntax.language == "php" and "<?" in text:
            raise Unreadable
        kind = "shell" if quote == "`" and self._syntax.shells else "string"
        self._tokens.append(Token(kind, text))

    def filled(self, closing: str, quote: str, opening: str = "") -> str:
        """Return the text up to `closing`, with holes for what is put into it."""
        syntax, parts, opened = self._syntax, [], 0
        raw, fills = quote in syntax.raw, quote in syntax.filled
        while not (closing and self._text.startswith(closing, self._at) and not opened):
            if found := _PLAIN.match(self._text, self._at):
                self._at = found.end()
                parts.append(found[0])
                continue
            char = self._text[self._at : self._at + 1]
            if not char:
                if closing:
                    raise Unreadable
                break
            if opening and opening != closing:
                opened += (char == opening) - (char == closing)
            if char == "\\":
                parts.append(self._escaped(raw=raw, quote=quote))
            elif fills and self._text.startswith(syntax.opens, self._at):
                parts.append(self._inner())
            elif fills and syntax.variables and (found := _VARIABLE.match(self._text, self._at)):
                self._at = found.end()
                parts.append(HOLE)
            else:
                parts.append(char)
                self._at += 1
        self._at += len(closing)
        return "".join(parts)

    def _escaped(self, *, raw: bool, quote: str) -> str:
        after = self._text[self._at + 1 : self._at + 2]
        if raw:
            plain = after in {quote, "\\"} and after
            self._at += 2 if plain else 1
            return plain or "\\"
        found = _ESCAPE.match(self._text, self._at + 1)
        if found is None:
            raise Unreadable
        self._at = found.end()
        code = found[1] or found[2] or found[3] or found[4]
        if code:
            return _letter(int(code, 16))
        return HOLE if found[5].isdigit() else _CONTROLS.get(found[5], found[5])

    def _inner(self) -> str:
        """Read code that stands in a string."""
        opens = next(o for o in self._syntax.opens if self._text.startswith(o, self._at))
        begin = self._at + (1 if opens == "{$" else len(opens))
        inner = ScriptTokenizer(self._text, self._syntax, self._level + 1, begin)
        self._at = inner.read(")" if opens.endswith("(") else "}") + 1
        self.pieces += inner.pieces
        if len(self.pieces) > MAX_PIECES:
            raise TooLong
        return HOLE


def _without_blanks(name: str) -> str:
    return name if name.isidentifier() else "".join(name.split())


def _letter(code: int) -> str:
    known = code < _SURROGATES.start or _SURROGATES.stop <= code <= sys.maxunicode
    return chr(code) if known else HOLE
