"""Shows how bash parses a command, without running it: bash prints the parsed command."""

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from typing import Final

_OPERATOR: Final = re.compile(
    r"(?:\d+|\{\w+\})?(?:<<<|<<-?|<>|>>|>\||<&|>&|<(?!\()|>(?!\())|&>>|&>|;;&|;;|;&|&&|\|\||\|&|[;&|\n()]"
)
_ASSIGNS: Final = re.compile(r"[A-Za-z_]\w*(?:\[[^]]*\])?\+?=")
_OPENING: Final = frozenset({"if", "then", "elif", "else", "do", "while", "until", "{", "!"})
_CLOSING: Final = frozenset({"fi", "done", "}", "esac"})
_NEXT: Final = frozenset({";", "&", "|", "&&", "||", "|&", "\n", "("})


@cache
def printed(text: str) -> str | None:
    """Return a text as bash prints it after parsing, or None if bash rejects it."""
    bash = ["bash", "--norc", "--noprofile", "--pretty-print"]
    done = subprocess.run(bash, input=text.encode(), capture_output=True, check=False)
    rejected = done.returncode or b"syntax error" in done.stderr or b"unexpected" in done.stderr
    return None if rejected or b"delimited by end-of-file" in done.stderr else done.stdout.decode()


def first_words(text: str) -> list[str]:
    """Return the first words of the simple commands in a text that bash printed."""
    return list(_Commands(list(_tokens(text))).firsts())


class _Commands:
    """Reads the tokens of a text that bash printed, which has a uniform format."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def firsts(self) -> Iterator[str]:  # noqa: C901, PLR0912, PLR0915 - a case for each keyword
        expected, cases = True, 0
        while self._at < len(self._tokens):
            token = self._next()
            if token in {";;", ";&", ";;&"} and cases:
                cases -= self._patterns()
                expected = "esac" not in self._tokens[self._at - 1 : self._at]
            elif token in _NEXT:
                expected = True
            elif _is_redirection(token):
                self._next()
            elif not expected or token == ")":
                continue
            elif token == "case":
                self._skip("in")
                closed = self._patterns()
                cases += not closed
                expected = not closed
            elif token in {"for", "select"}:
                self._skip(";", "\n", "))")
            elif token == "[[":
                self._skip("]]")
                expected = False
            elif token == "((":
                self._skip("))")
                expected = False
            elif token == "function":
                self._next()
            elif token in _CLOSING:
                expected = False
            elif self._tokens[self._at : self._at + 2] == ["(", ")"]:
                self._at += 2
            elif token not in _OPENING | {"time", "-p"} and not _ASSIGNS.match(token):
                yield token
                expected = False

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1] if self._at <= len(self._tokens) else ""

    def _skip(self, *ends: str) -> None:
        while self._at < len(self._tokens) and self._next() not in ends:
            pass

    def _patterns(self) -> bool:
        """Skip the patterns of a case. Return True if the case ends here."""
        while self._at < len(self._tokens) and self._tokens[self._at] == "\n":
            self._at += 1
        if self._tokens[self._at : self._at + 1] == ["esac"]:
            self._at += 1
            return True
        self._skip(")")
        return False


def _is_redirection(token: str) -> bool:
    return token[-1:] in {"<", ">", "-", "|", "&"} and _OPERATOR.fullmatch(token) is not None


def _tokens(text: str) -> Iterator[str]:
    at, waiting, heredoc = 0, list[str](), False
    while at < len(text):
        if text[at] in " \t":
            at += 1
        elif text.startswith("((", at) and (end := text.find("))", at)) > 0 and _counts(text, at):
            yield from ("((", "))")
            at = end + 2
        elif found := _OPERATOR.match(text, at):
            yield found[0]
            at = found.end()
            if found[0] == "\n":
                for end_word in waiting:
                    at = _after_heredoc(text, at, end_word)
                waiting = []
            heredoc = found[0].endswith(("<<", "<<-")) and not found[0].endswith("<<<")
        else:
            end = _end_of_word(text, at)
            word = text[at:end]
            if heredoc:
                waiting.append(re.sub(r"[\\'\"]", "", word))
                heredoc = False
            yield word
            at = end


def _counts(text: str, at: int) -> bool:
    """Return True if `((` is arithmetic. Bash prints two subshells with a blank between them."""
    return not text.startswith("((((", at)


def _after_heredoc(text: str, at: int, end_word: str) -> int:
    while at < len(text):
        line, _, _ = text[at:].partition("\n")
        at += len(line) + 1
        if line.lstrip("\t") == end_word:
            break
    return at


def _end_of_word(text: str, at: int) -> int:
    begun = at
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 2
        elif char in "'\"`":
            at = _end_of_quotes(text, at)
        elif char == "$" and text[at + 1 : at + 2] in {"(", "{", "["}:
            at = _end_of_brackets(text, at + 1)
        elif char == "$" and text[at + 1 : at + 2] == "'":
            at = _end_of_quotes(text, at + 1, escapes=True)
        elif char == "(" and at > begun and text[at - 1] in "=<>@?*+!":
            at = _end_of_brackets(text, at)
        elif char in "<>" and text[at + 1 : at + 2] == "(":
            at += 1
        elif char in " \t\n;&|<>()":
            break
        else:
            at += 1
    return max(at, begun + 1)


def _end_of_quotes(text: str, at: int, *, escapes: bool = False) -> int:
    quote, at = text[at], at + 1
    while at < len(text) and text[at] != quote:
        if text[at] == "\\" and (quote != "'" or escapes):
            at += 1
        elif quote == '"' and text[at] == "$" and text[at + 1 : at + 2] in {"(", "{"}:
            at = _end_of_brackets(text, at + 1) - 1
        at += 1
    return at + 1


def _end_of_brackets(text: str, at: int) -> int:
    opening = text[at]
    closing = {"(": ")", "{": "}", "[": "]"}[opening]
    depth = 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif char in "'\"`":
            at = _end_of_quotes(text, at) - 1
        elif char == opening:
            depth += 1
        elif char == closing:
            depth -= 1
            if not depth:
                return at + 1
        at += 1
    return at
