"""Lists of patterns. Each list is compiled into one set that searches for all patterns at once.

Patterns are RE2: linear time, without look-around and back-references. Case is ignored and `.`
matches a newline.
"""

import functools
import re
import string
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
import re2

from safetyd.core.messages.verdict import Severity

MAX_UNBOUNDED: Final = 10

_is_name = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z").match
# Escapes and brackets match without a group, so group 1 is always an unbounded wildcard.
_WILDCARD: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(\.(?:[*+]|\{\d+,\}))", re.DOTALL)
_PLAIN: Final = frozenset(f"{string.ascii_letters}{string.digits} _-/=:,@%")
_ANCHOR: Final = re.compile(r"[$^]|\\[Az]")


class PatternConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pattern with a name for rule ids. `then` may change the decision for a match."""

    name: str
    pattern: str
    then: Severity | None = None


AnyPattern = str | PatternConfig


class PatternSet:
    """A compiled list of patterns.

    A pattern whose `then` is allow stays in the list, but never matches. The constructor raises
    `ValueError` with every pattern that RE2 refuses, and the reasons.
    """

    def __init__(self, patterns: Sequence[AnyPattern]) -> None:
        if wrong := problems(patterns):
            raise ValueError("; ".join(message for _, message in wrong))
        self.patterns = named(patterns)
        self._numbers = _sought(self.patterns)
        self.sought = [self.patterns[number].pattern for number in self._numbers]
        self._match: Callable[[bytes], list[int] | None] = _compiled(self.sought).Match
        self._anchored = any(map(_ANCHOR.search, self.sought))

    def find(self, forms: Sequence[str]) -> list[int]:
        """Return the indices of the patterns that match one of `forms`, in order."""
        if not forms:
            return []
        if len(forms) == 1:
            hits = self._match(forms[0].encode("utf-8", "replace"))
        elif self._anchored or self._match("\n".join(forms).encode("utf-8", "replace")):
            # The joined text may match where no single form does, so check each form.
            hits = [
                hit for form in forms for hit in self._match(form.encode("utf-8", "replace")) or ()
            ]
        else:
            return []
        return sorted({self._numbers[hit] for hit in hits}) if hits else []

    def matched(self, number: int, forms: Sequence[str]) -> str:
        """Return the words that a pattern matches in the first form that it matches."""
        search = _search(self.patterns[number].pattern)
        found = (search(form.encode("utf-8", "replace")) for form in forms)
        return next((match[0].decode("utf-8", "replace") for match in found if match), "")


class Sieve:
    """Several lists combined, for a quick check that none of them matches."""

    def __init__(self, lists: Sequence[PatternSet]) -> None:
        self._lists = lists
        sought = [pattern for known in lists for pattern in known.sought]
        self._match: Callable[[bytes], list[int] | None] | None = None
        if not list(_set_problems(sought)) and not any(map(_ANCHOR.search, sought)):
            self._match = _compiled(sought).Match

    def passes(self, forms: Sequence[str]) -> bool:
        """Return True if no list matches any of `forms`. False means that one may match."""
        if self._match is None:
            return not any(known.find(forms) for known in self._lists)
        return not self._match("\n".join(forms).encode("utf-8", "replace"))


def literally(text: str) -> str:
    """Return an ASCII pattern that matches a text literally."""
    return "".join(map(_literal, text))


def _literal(char: str) -> str:
    if char in _PLAIN:
        return char
    return f"\\{char}" if "!" <= char <= "~" else f"\\x{{{ord(char):x}}}"


def named(patterns: Sequence[AnyPattern]) -> tuple[PatternConfig, ...]:
    """Name plain strings by their position: the first is `custom_1`."""
    return tuple(
        PatternConfig(name=f"custom_{number}", pattern=pattern)
        if isinstance(pattern, str)
        else pattern
        for number, pattern in enumerate(patterns, 1)
    )


def problems(patterns: Sequence[AnyPattern]) -> list[tuple[str, str]]:
    """Return all problems, each with its position, such as `[3]`.

    The position is empty if the problem concerns the whole list.
    """
    wrong = list(_single_problems(named(patterns)))
    if wrong:
        return wrong
    known = named(patterns)
    sought = [known[number].pattern for number in _sought(known)]
    return [("", message) for message in _set_problems(sought)]


def _single_problems(patterns: Sequence[PatternConfig]) -> Iterator[tuple[str, str]]:
    taken: dict[str, int] = {}
    for number, pattern in enumerate(patterns):
        if not _is_name(pattern.name):
            yield (
                f"[{number}]",
                f"{pattern.name!r} is not a valid name: use up to 64 of A-Z a-z 0-9 _ . -",
            )
        if taken.setdefault(pattern.name, number) != number:
            yield f"[{number}]", f"another pattern is already called {pattern.name}"
        if why := _refusal(pattern.pattern):
            yield f"[{number}]", f"pattern {pattern.name}, {pattern.pattern!r}: {why}"


def _set_problems(sought: Sequence[str]) -> Iterator[str]:
    unbounded = sum(map(_wildcards, sought))
    if unbounded > MAX_UNBOUNDED:
        yield (
            f"the list has {unbounded} unbounded .* or .+, and more than {MAX_UNBOUNDED} are too "
            "slow: write .{0,80} instead"
        )
        return
    try:
        _compiled(sought)
    except re2.error:
        yield "the patterns are too large to compile together: use fewer or simpler ones"


def _sought(patterns: Sequence[PatternConfig]) -> list[int]:
    return [n for n, pattern in enumerate(patterns) if pattern.then is not Severity.ALLOW]


def _wildcards(pattern: str) -> int:
    return sum(map(bool, _WILDCARD.findall(pattern)))


def _refusal(pattern: str) -> str:
    if not pattern:
        return "it is empty and would match everything"
    try:
        re2.compile(pattern, _options())
    except re2.error as exc:
        return b"".join(exc.args).decode(errors="replace")
    return ""


@functools.lru_cache(maxsize=1024)
def _search(pattern: str) -> Callable[[bytes], re.Match[bytes] | None]:
    search: Callable[[bytes], re.Match[bytes] | None] = re2.compile(pattern, _options()).search
    return search


def _compiled(patterns: Sequence[str]) -> re2.Set:
    """Compile, or raise `re2.error`. `Match` on a set that did not compile crashes the process."""
    together = re2.Set.SearchSet(_options())
    for pattern in patterns:
        together.Add(pattern)
    together.Compile()
    return together


def _options() -> re2.Options:
    options = re2.Options()
    options.case_sensitive = False
    options.dot_nl = True
    options.log_errors = False
    return options
