"""The table of programs, which says what their verbs and options do.

The files in `table/` are shipped. An operator's `[shell.programs.NAME]` adds or replaces a row. A
program without a row needs approval.
"""

import functools
import hashlib
import tomllib
from collections.abc import Iterator, Mapping
from copy import copy
from fnmatch import fnmatchcase
from importlib.resources import files
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from safetyd.core.action_types import normalised
from safetyd.core.shell.reading import OWN_PROGRAM, Effect

Names = tuple[str, ...]
Pattern = Annotated[str, Meta(min_length=1)]
Arguments = Literal["read", "write", "delete", "text", "copy", "move", "run", "script"]
Output = Literal["same", "lines", "text", "network", "decoded", ""]

EFFECTS: Final = tuple(Effect)


class Verb(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A use of a program: its first words, and options that matter."""

    words: str = ""  # such as "remote set-url"; `*` matches any part of a word
    with_: Names = msgspec.field(name="with", default=())  # at least one of these options is given
    without: Names = ()  # none of these options is given
    why: str = ""
    type: str = ""
    remedy: str = ""
    blocks: bool = False
    arguments: Arguments | None = None  # default: the row's value


class Wraps(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program that runs the command in its arguments."""

    skip: int = 0  # number of its own arguments before the command
    assigns: bool = False  # NAME=value may precede the command
    text: bool = False  # the words are joined and run by a shell
    elsewhere: bool = False  # it runs the command on another machine or in a container
    after: str = ""  # the word before the command, such as "--"
    optional: bool = False  # it does nothing without a command
    input: bool = False  # it appends words from standard input
    folder: Names = ()  # options whose value is the folder that it runs in


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The description of a program in the table."""

    effect: Effect | None = None  # the effect of every use that is not listed
    blocks: bool = False
    why: str = ""
    type: str = ""
    remedy: str = ""
    read: tuple[Pattern | Verb, ...] = ()
    work: tuple[Pattern | Verb, ...] = ()
    unknown: tuple[Pattern | Verb, ...] = ()
    installs: tuple[Pattern | Verb, ...] = ()
    leaves: tuple[Pattern | Verb, ...] = ()
    irreversible: tuple[Pattern | Verb, ...] = ()
    privileged: tuple[Pattern | Verb, ...] = ()
    secrets: tuple[Pattern | Verb, ...] = ()
    otherwise: Effect | None = None  # the effect if no verb matches; default: unknown
    bare: Effect | None = None  # the effect of a call without words
    options_with_value: Names = ()
    long_options: bool = False  # long options may start with a single hyphen
    writes: Names = ()  # options whose value is a file that is written
    reads: Names = ()  # options whose value is a file that is read
    runs: Names = ()  # options whose value is a command
    loads: Names = ()  # options whose value is a file that the program runs
    texts: Names = ()  # options whose value is plain text or a pattern
    run: Names = ()  # verbs that run the command after `--` on another machine
    wraps: Wraps | None = None
    # What the program does with its file arguments. Arguments after a script belong to the script.
    arguments: Arguments = "read"
    patterns: int = 0  # number of arguments before the first file
    output: Output = ""  # its input, its arguments, a download or decoded text
    reader: str = ""  # the function that analyses the program, if a row is not enough


class Use(msgspec.Struct, frozen=True):
    """A verb of a row with its effect, prepared for matching."""

    effect: Effect
    words: tuple[str, ...]
    options: tuple[str, ...]  # all of these are required
    verb: Verb

    @property
    def specific(self) -> tuple[int, int, int, int]:
        literal = sum("*" not in word for word in self.words)
        options = len(self.options) + bool(self.verb.with_)
        return len(self.words), literal, options, self.effect.rank


class Program:
    """A row, indexed by verb."""

    def __init__(self, name: str, row: Row) -> None:
        self.name = name
        self.row = row
        self.valued = frozenset(
            (*row.options_with_value, *row.writes, *row.reads, *row.runs, *row.loads, *row.texts)
        )
        uses = [use for effect in EFFECTS for use in _uses(row, effect)]
        self.uses = sorted(uses, key=lambda use: use.specific, reverse=True)
        self.by_options = [use for use in self.uses if not use.words]
        self.has_verbs = len(self.by_options) < len(self.uses)
        self._by_verb: dict[str, list[Use]] = {}
        self._otherwise: list[Use] = []  # uses that may match any verb
        for use in self.uses:
            if use.words and "*" not in use.words[0]:
                self._by_verb.setdefault(use.words[0], list(self._otherwise)).append(use)
            else:
                self._otherwise.append(use)
                for uses in self._by_verb.values():
                    uses.append(use)

    def named(self, name: str) -> "Program":
        """Return the same program under another name."""
        other = copy(self)
        other.name = name
        return other

    def uses_of(self, verb: str) -> list[Use]:
        """Return the uses that may match a verb, most specific first."""
        return self._by_verb.get(verb, self._otherwise)

    @property
    def is_package(self) -> bool:
        """True if `npx` or `uvx` can fetch the program by this name, or an operator added it."""
        return not isinstance(self.row, ShippedRow) or self.row.package


class OptionSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options that may follow a check, by the kind of their value."""

    flags: Names = ()
    numbers: Names = ()
    words: Names = ()
    names: Names = ()  # of packages, modules and rules
    texts: Names = ()  # any text
    files: Names = ()  # of the project
    reports: Names = ()  # files of the project that the program writes
    settings: bool = False  # NAME=number may follow
    single: bool = False  # long options start with one hyphen


CheckArguments = Literal["", "files", "paths", "packages", "names"]


class CheckRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The words that may follow checks that begin with certain words."""

    begins: Names
    options: Names = ()  # option sets
    after: Names = ()  # option sets for the words after `--`
    # Files of the project; the same, but no plain words; packages of Go; names of tests.
    arguments: CheckArguments = ""


class Table:
    """All known programs, and the words that may follow a check."""

    def __init__(
        self,
        programs: Mapping[str, Program],
        lists: Mapping[str, frozenset[str]],
        checks: tuple[CheckRow, ...] = (),
        option_sets: Mapping[str, OptionSet] = {},
    ) -> None:
        self._programs = programs
        self.lists = lists
        self.checks = checks
        self.option_sets = option_sets

    def find(self, name: str) -> Program | None:
        """Return a program by name, ignoring versions as in `python3.12` and `clang-format-18`."""
        if found := self._programs.get(name):
            return found
        if found := self._programs.get(name.rstrip("0123456789.").rstrip("-")):
            return found
        # The name may be spelled with look-alike letters.
        return self._programs.get(OWN_PROGRAM) if normalised(name) == OWN_PROGRAM else None

    def names(self) -> list[str]:
        return sorted(self._programs)

    def with_rows(self, rows: Mapping[str, Row]) -> "Table":
        if not rows:
            return self
        added = {name: Program(name, row) for name, row in rows.items()}
        return Table({**self._programs, **added}, self.lists, self.checks, self.option_sets)


class ShippedRow(Row, frozen=True, kw_only=True, forbid_unknown_fields=True):
    names: Names
    package: bool = False  # `npx`, `uvx` and similar fetch the program by its name


class Shipped(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    lists: dict[str, Names] = {}
    programs: tuple[ShippedRow, ...] = ()
    checks: tuple[CheckRow, ...] = ()
    option_sets: dict[str, OptionSet] = {}


@functools.cache
def shipped() -> Table:
    """Return the shipped table."""
    shipped = shipped_rows()
    programs: dict[str, Program] = {}
    for row in shipped.programs:
        made = Program(row.names[0], row)
        programs |= {name: made.named(name) for name in row.names}
    lists = {name: frozenset(listed) for name, listed in shipped.lists.items()}
    return Table(programs, lists, shipped.checks, shipped.option_sets)


@functools.cache
def shipped_rows() -> Shipped:
    tables = [msgspec.convert(tomllib.loads(source), Shipped) for source in _sources()]
    return Shipped(
        lists={name: listed for table in tables for name, listed in table.lists.items()},
        programs=tuple(row for table in tables for row in table.programs),
        checks=tuple(row for table in tables for row in table.checks),
        option_sets={name: each for table in tables for name, each in table.option_sets.items()},
    )


@functools.cache
def digest() -> str:
    """Return the digest of the shipped table, which the journal records."""
    return "sha256:" + hashlib.sha256("".join(_sources()).encode()).hexdigest()


def _sources() -> list[str]:
    """Return the contents of the table's files."""
    folder = files("safetyd.core.shell").joinpath("table")
    listed = sorted(folder.iterdir(), key=lambda file: file.name)
    return [file.read_text(encoding="utf-8") for file in listed if file.name.endswith(".toml")]


def problems(rows: Mapping[str, Row]) -> Iterator[tuple[str, str]]:
    """Yield the key and the reason for each mistake in an operator's rows."""
    for name, row in rows.items():
        if "/" in name or not name or name.split() != [name]:
            yield name, "use only the name of the program, without folder or spaces"
        if row.reader:
            yield f"{name}.reader", "only shipped programs can have a reader: remove it"
        if row.effect is None and row.wraps is None and not Program(name, row).uses:
            yield (
                name,
                'does not say what the program does: set effect = "work", or list its verbs',
            )
        if row.effect is not None and row.otherwise is not None:
            yield (
                f"{name}.otherwise",
                "`effect` already covers every other use: remove `effect` or `otherwise`",
            )
        for use in Program(name, row).uses:
            if not use.words and not use.options and not use.verb.with_:
                yield name, f"an entry in `{use.effect}` has neither words nor options: add one"


def _uses(row: Row, effect: Effect) -> Iterator[Use]:
    for given in getattr(row, effect.value):
        verb = given if isinstance(given, Verb) else Verb(words=given)
        said = verb.words.split()
        words = tuple(word for word in said if not word.startswith("-"))
        options = tuple(word for word in said if word.startswith("-"))
        yield Use(effect, words, options, verb)


def matches(pattern: str, word: str) -> bool:
    return pattern == word or ("*" in pattern and fnmatchcase(word, pattern))
