"""The checks of a project: commands that are allowed, such as `pytest`, with harmless additions.

A check covers a command that begins with its words. What follows is limited by a table: options
that only select tests or change the output, and files of the project. `<path>` and `<number>` in a
check stand for any path in the project and any number.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final, Literal, NamedTuple

from safetyd.core.shell import places
from safetyd.core.shell.programs import CheckArguments, CheckRow, OptionSet, Table
from safetyd.core.shell.scope import POSITIONAL, Command, Scope
from safetyd.core.shell.words import Word

Coverage = Literal["", "exact", "extended"]

_LONGEST_BEGIN: Final = 3  # words
_OTHERS: Final = CheckRow(begins=("",), options=("others",), arguments="paths")
_EXACT: Final = CheckRow(begins=("",))
_VARIABLES: Final = "check_variables"
_RUNNERS: Final = "check_runners"
_is_number = re.compile(r"\d+(?:\.\d+)?").fullmatch
_is_word = re.compile(r"\d+(?:\.\d+)*|[A-Za-z0-9_](?:[\w,+-]|::)*", re.ASCII).fullmatch
_is_name = re.compile(r"[@.:]?\w(?:[\w,/+-]|\.(?!\.))*", re.ASCII).fullmatch
_is_test_name = re.compile(r"[A-Za-z_](?:\w|::)*", re.ASCII).fullmatch
_is_setting = re.compile(r"[A-Z][A-Z0-9_]*=\d+", re.ASCII).fullmatch
_is_plain_path = re.compile(r"[\w.][\w./+ -]*").fullmatch
_within_file = re.compile(r"::.*|(?::\d+)+", re.DOTALL)  # a test or line: `x.py::test`, `x.rb:4`
_is_report = re.compile(
    r"[\w-]*(?:report|result|junit|cover|test)[\w-]*\.(?:xml|html|json|txt|out|lcov|info|log)"
).fullmatch


class DeclaredChecks:
    """The checks of one project."""

    def __init__(self, checks: Sequence[str], table: Table) -> None:
        known = Additions(table)
        self._checks = [Check(words, known) for check in checks if (words := _words(check))]
        self._variables = table.lists.get(_VARIABLES, frozenset()) | POSITIONAL

    def find(self, command: Command, scope: Scope) -> Coverage:
        """Return whether a check covers a command, exactly or with additions."""
        if not self._checks or not self._is_plain(command, scope):
            return ""
        inside = Inside(scope)
        found = {check.find(command.words, inside) for check in self._checks}
        return "exact" if "exact" in found else "extended" if "extended" in found else ""

    def _is_plain(self, command: Command, scope: Scope) -> bool:
        """Return True if nothing around a command can change what it runs."""
        return (
            command.stdin is None
            and not scope.elsewhere
            and command.words[0].text not in scope.functions
            and scope.variables.keys() <= self._variables
            and Inside(scope)(".")
        )


class Inside:
    """Tells paths of the project from others, in every folder that may be the current one."""

    def __init__(self, scope: Scope) -> None:
        self._project = scope.project
        self._folders = {scope.cwd, *scope.others}

    def __call__(self, path: str) -> bool:
        found = {places.place(path, folder, self._project).kind for folder in self._folders}
        return found == {places.INSIDE}


class Check:
    """One check, and the words that may follow it."""

    def __init__(self, words: tuple[str, ...], known: "Additions") -> None:
        self._words = words
        self._known = known

    @cached_property
    def _may_follow(self) -> "Following | None":
        return self._known.after(self._words)

    def find(self, given: Sequence[Word], inside: Inside) -> Coverage:
        size = len(self._words)
        if len(given) < size or not self._begins(given, inside):
            return ""
        if len(given) == size:
            return "exact"
        rest, follows = given[size:], self._may_follow
        if follows is None or not all(map(_is_fixed, rest)):
            return ""
        return "extended" if follows([word.text for word in rest], inside) else ""

    def _begins(self, given: Sequence[Word], inside: Inside) -> bool:
        first, text = self._words[0], given[0].text
        # A program that the project installed: `.venv/bin/pytest`.
        same = text == first or (places.program_name(text) == first and inside(text))
        pairs = zip(self._words[1:], given[1:], strict=False)
        return same and all(_matches(check, word.text, inside) for check, word in pairs)


class Following(NamedTuple):
    """The words that may follow a check."""

    options: "Options"
    after: "Options"  # options after `--`
    arguments: CheckArguments
    settings: bool  # NAME=number

    def __call__(self, words: Sequence[str], inside: Inside) -> bool:
        """Return True if these words may follow."""
        options, left = self.options, list(words)
        while left:
            text = left.pop(0)
            if text == "--" and options is not self.after:
                options = self.after
            elif text.startswith("-"):
                if not options.take(text, left, inside):
                    return False
            elif not self._is_argument(text, inside):
                return False
        return True

    def _is_argument(self, text: str, inside: Inside) -> bool:
        if self.settings and _is_setting(text):
            return True
        if self.arguments == "names":
            return _is_test_name(text) is not None
        if self.arguments in {"files", "paths", "packages"}:
            plain = self.arguments == "paths" and "/" not in text and "." not in text
            package = self.arguments != "packages" or text.startswith(".")
            return not plain and package and _is_file(text, inside)
        return False


class Options(NamedTuple):
    """The options that may follow a check."""

    flags: frozenset[str]
    valued: Mapping[str, Sequence["IsValue"]]
    single: bool  # long options start with one hyphen

    def take(self, text: str, left: list[str], inside: Inside) -> bool:
        """Return True if an option may follow a check. Remove its value from `left`."""
        if self.single and text.startswith("--"):
            text = text[1:]
        name, equals, value = text.partition("=")
        if text in self.flags:
            return True
        if equals:
            return self._accepts(name, value, inside)
        if name in self.valued:
            given = left.pop(0) if left else "-"
            return given[:1] != "-" and self._accepts(name, given, inside)
        return not self.single and not text.startswith("--") and self._cluster(text, inside)

    def _cluster(self, text: str, inside: Inside) -> bool:
        """Return True for several flags in one word, the last perhaps with its value: `-qn4`."""
        for at in range(1, len(text)):
            option = f"-{text[at]}"
            if option in self.valued and text[at + 1 :]:
                return self._accepts(option, text[at + 1 :], inside)
            if option not in self.flags:
                return False
        return len(text) > 1

    def _accepts(self, name: str, value: str, inside: Inside) -> bool:
        return any(accepts(value, inside) for accepts in self.valued.get(name, ()))


class Additions:
    """Looks up which words may follow a check."""

    def __init__(self, table: Table) -> None:
        self._table = table
        runners = table.lists.get(_RUNNERS, frozenset())
        self._runners = sorted((tuple(each.split()) for each in runners), key=len, reverse=True)

    def after(self, words: tuple[str, ...]) -> Following | None:
        """Return the words that may follow a check, or None if it covers only itself."""
        program, *rest = self._without_runner(words) or words
        begin = (places.program_name(program), *rest)
        row = next(iter(self._rows(begin)), None) or self._default(begin[0])
        following = self._following(row)
        last = begin[-1]
        # The next word may be the value of the last one.
        return None if last.startswith("-") and last not in following.options.flags else following

    def lists(self, words: tuple[str, ...]) -> bool:
        """Return True if the table has a row for a check."""
        return next(self._rows(words), None) is not None

    def _without_runner(self, words: tuple[str, ...]) -> tuple[str, ...]:
        found = (each for each in self._runners if words[: len(each)] == each)
        return words[len(next(found, ())) :]

    def _rows(self, begin: Sequence[str]) -> Iterator[CheckRow]:
        """Yield the rows for a check, those with the most words first."""
        named = [(each.split(), row) for row in self._table.checks for each in row.begins]
        named.sort(key=lambda pair: len(pair[0]), reverse=True)
        return (row for begins, row in named if _is_begin(begins, begin))

    def _default(self, name: str) -> CheckRow:
        """Return the row for other programs: nothing may follow those with subcommands."""
        return _EXACT if name and self._table.find(name) is not None else _OTHERS

    def _following(self, row: CheckRow) -> Following:
        sets = self._table.option_sets
        options = _options([sets[name] for name in row.options])
        after = _options([sets[name] for name in row.after])
        settings = any(sets[name].settings for name in row.options)
        return Following(options, after, row.arguments, settings)


@lru_cache(maxsize=64)
def declared(checks: tuple[str, ...], table: Table) -> DeclaredChecks:
    """Return the checks of a project, parsed."""
    return DeclaredChecks(checks, table)


IsValue = Callable[[str, Inside], bool]


def _is_file(text: str, inside: Inside) -> bool:
    """Return True for a path in the project, also with the name of a test: `x.py::test_a`."""
    path = _within_file.sub("", text)
    return _is_plain_path(path) is not None and inside(path)


def _is_report_file(text: str, inside: Inside) -> bool:
    *folders, name = text.split("/")
    hidden = any(folder.startswith(".") for folder in folders)
    return not hidden and _is_report(name) is not None and _is_file(text, inside)


_KINDS: Final[Mapping[str, IsValue]] = {
    "numbers": lambda text, _inside: _is_number(text) is not None,
    "words": lambda text, _inside: _is_word(text) is not None,
    "names": lambda text, _inside: _is_name(text) is not None,
    "texts": lambda _text, _inside: True,
    "files": _is_file,
    "reports": _is_report_file,
}
_SHAPES: Final[Mapping[str, IsValue]] = {"<path>": _is_file, "<number>": _KINDS["numbers"]}


def _options(sets: Sequence[OptionSet]) -> Options:
    valued: dict[str, list[IsValue]] = {}
    for each in sets:
        for kind, accepts in _KINDS.items():
            for name in getattr(each, kind):
                valued.setdefault(name, []).append(accepts)
    flags = frozenset(flag for each in sets for flag in each.flags)
    return Options(flags, valued, any(each.single for each in sets))


def _is_fixed(word: Word) -> bool:
    """Return True if a word is known. Brackets in the name of a test are allowed: `x.py::a[1]`."""
    path, within, _ = word.text.partition("::")
    return word.fixed or (word.known and bool(within) and set("*?[").isdisjoint(path))


def _words(check: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(check))
    except ValueError:
        return tuple(check.split())


def _matches(check: str, text: str, inside: Inside) -> bool:
    shape = _SHAPES.get(check)
    return text == check if shape is None else shape(text, inside)


def known_begin(text: str, table: Table) -> str:
    """Return the beginning of a command that would be a check with known additions, if any."""
    words, known = tuple(text.split()), Additions(table)
    begins = (words[:size] for size in range(1, min(len(words), _LONGEST_BEGIN) + 1))
    return next((" ".join(begin) for begin in begins if known.lists(begin)), "")


def _is_begin(begins: Sequence[str], given: Sequence[str]) -> bool:
    """Return True if a check begins with these words. `*` is a word that is not an option."""
    pairs = zip(begins, given, strict=False)
    return len(given) >= len(begins) and all(
        known == word or (known == "*" and word[:1] != "-") for known, word in pairs
    )
