"""The state of the simulated shell, and the current position of the analysis."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from msgspec.structs import replace
from tree_sitter import Node

from safetyd.core.shell.places import UNKNOWN, Place, Project, place
from safetyd.core.shell.reading import HOLE, Blank, Effect, Finding, word_set
from safetyd.core.shell.tree.syntax import NotAnalysable, text_of
from safetyd.core.shell.words import COMMAND, KNOWN, UNKNOWN_TEXT, Flow, Word

NUMBERED: Final = tuple("123456789")
POSITIONAL: Final = frozenset({*NUMBERED, "@", "*"})  # arguments of a function or script
# Variables that the shell sets itself, whatever the command assigns to them.
_DYNAMIC: Final = word_set("""
    _ REPLY MAPFILE COPROC OPTARG OPTIND PWD OLDPWD DIRSTACK RANDOM SRANDOM SECONDS LINENO
    EPOCHSECONDS EPOCHREALTIME BASHPID PPID UID EUID GROUPS FUNCNAME PIPESTATUS BASH_COMMAND
    BASH_SUBSHELL BASH_REMATCH BASH_ARGV BASH_ARGV0 BASH_LINENO BASH_SOURCE HISTCMD
""")
MAX_DEPTH: Final = 12
MAX_COMMANDS: Final = 400
MAX_OPTIONS: Final = 500  # of one program
MAX_FINDINGS: Final = 4000
MAX_FOLDERS: Final = 8  # possible current folders
MAX_PATTERNS: Final = 64  # file name patterns
MAX_STEPS: Final = 10_000  # analysed statements, counting repetitions
MAX_EXPANDED: Final = 1024 * 1024  # characters produced by expansions
MAX_SHOWN: Final = 120
_ENDS: Final = 8 * MAX_SHOWN  # bytes that are decoded at each end of a long part


class Redirect(NamedTuple):
    operator: str
    descriptor: str
    target: Word


class Command(NamedTuple):
    """A simple command after expansion."""

    words: list[Word]
    assignments: list[tuple[str, Word]]
    redirects: list[Redirect]
    stdin: Flow | None  # None if the command inherits its input from the agent's shell
    start: int
    end: int


class Defined(NamedTuple):
    """A function, with the state of the shell at its definition."""

    name: str
    body: Node
    scope: "Scope"
    context: "Context"


class Trap(NamedTuple):
    """A script that runs on exit or on a signal, with the state of the shell at that time."""

    text: str
    word: Word
    scope: "Scope"
    variables: dict[str, Flow]  # at the time when the trap was set
    late: bool  # it runs on exit only


class Scope:
    """The state of a shell: variables, functions, current folder. A subshell has a copy."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.cwd: str | None = project.cwd or project.root
        self.others: frozenset[str | None] = frozenset()  # current folders if an earlier cd failed
        self.stayed: frozenset[str | None] = frozenset()  # current folders if the last cd failed
        self.errexit = False  # the shell exits if a command fails
        self.variables: dict[str, Flow] = {}
        self.untrusted = _DYNAMIC  # variables whose value may differ from the assigned one
        self.changed: list[str] = []  # names of variables in the order of their changes
        self.functions: dict[str, Node | str] = {}
        self.called: set[str] = set()
        self.entered: tuple[str, ...] = ()  # functions under analysis, outermost first
        self.files: dict[str, Flow] = {}  # new contents by absolute path; shared with copies
        self.elsewhere = False  # the shell is on another machine or in a container
        self.started: frozenset[str] = frozenset()  # background commands as written
        self.made: frozenset[str] = frozenset()  # folders that the command created
        self.moved: set[str] = set()  # targets of moved files; shared with copies
        self.piped_to: Node | None = None  # the next command of the same pipeline

    def copy(self, *, elsewhere: bool = False) -> "Scope":
        other = Scope.__new__(Scope)
        other.project = self.project
        other.cwd = self.cwd
        other.others = self.others
        other.stayed = self.stayed
        other.errexit = self.errexit
        other.variables = self.variables.copy()
        other.untrusted = self.untrusted
        other.changed = []
        other.functions = self.functions.copy()
        other.called = self.called
        other.entered = self.entered
        other.files = self.files
        other.elsewhere = self.elsewhere or elsewhere
        other.made = self.made
        other.moved = self.moved
        other.started = self.started
        other.piped_to = None
        return other

    def set(self, name: str, value: Flow) -> None:
        """Set a variable."""
        self.variables[name] = UNKNOWN_TEXT if name in self.untrusted else value
        self.changed.append(name)

    def set_arguments(self, given: Sequence[Word]) -> None:
        """Set the positional variables of a function or script."""
        for number in NUMBERED:
            self.set(number, UNKNOWN_TEXT)
        for number, word in zip(NUMBERED, given, strict=False):
            self.set(number, Flow(word.text, word.origin))
        every = " ".join(word.text for word in given)
        for name in "@*":
            self.set(name, Flow(every, COMMAND if HOLE in every else KNOWN))

    def forget(self, names: Iterable[str]) -> None:
        """Mark variables as unknown."""
        for name in names:
            self.set(name, UNKNOWN_TEXT)

    def forget_all(self) -> None:
        """Mark all variables as unknown, because the command may have changed any of them."""
        self.forget(tuple(self.variables))

    def forget_since(self, mark: int) -> None:
        """Mark as unknown all variables that changed since `changed` had the length `mark`."""
        self.forget(set(self.changed[mark:]))

    @contextmanager
    def assigned(self, given: Sequence[tuple[str, Word]]) -> Iterator[None]:
        """Set variables for one command, as `A=b command` does."""
        before = {name: self.variables.get(name) for name, _ in given}
        during = {
            name: UNKNOWN_TEXT if name in self.untrusted else Flow(value.text, value.origin)
            for name, value in given
        }
        self.variables |= during
        try:
            yield
        finally:
            for name, value in before.items():
                if self.variables.get(name) is not during[name]:
                    self.set(name, UNKNOWN_TEXT)  # changed by the command
                elif value is None:
                    del self.variables[name]
                else:
                    self.variables[name] = value

    def ended(self, made: frozenset[str], background: Node | None) -> None:
        """Forget folders that a statement may have failed to create. Add its background job."""
        self.made = made
        if background is not None:
            self.started |= {text_of(background)}

    def take_over(self, inner: "Scope") -> None:
        """Copy the state after a function call. Variables that the function set become unknown."""
        self.cwd, self.others, self.stayed = inner.cwd, inner.others, inner.stayed
        self.functions |= inner.functions
        self.untrusted |= inner.untrusted
        for assigned, value in inner.variables.items():
            if assigned not in POSITIONAL and self.variables.get(assigned) is not value:
                self.set(assigned, Flow(None, value.origin or COMMAND))

    def enter(self, target: str | None) -> None:
        """Simulate `cd`, which may fail. If `target` is None, the new folder is unknown."""
        before = self.others | self.stayed
        self.stayed = before | {self.cwd}
        if len(self.stayed) > MAX_FOLDERS or target is None:
            self.cwd, self.others = None, frozenset()
            return
        self.cwd, self.others = (
            _folder(target, self.cwd, self.project),
            frozenset(_folder(target, each, self.project) for each in before),
        )

    @contextmanager
    def inside(self, folder: str | None) -> Iterator[None]:
        """Use another current folder inside the block."""
        before, self.cwd = self.cwd, folder
        try:
            yield
        finally:
            self.cwd = before

    def place(self, word: str) -> Place:
        return place(word, self.cwd, self.project)

    def written_to(self, path: str) -> Flow | None:
        """Return the content that the command wrote to a file, or None."""
        return self.files.get(self.place(path).path)


def _folder(target: str, cwd: str | None, project: Project) -> str | None:
    where = place(target, cwd, project)
    return None if where.kind == UNKNOWN else where.path


class Context(NamedTuple):
    """A text under analysis, and its position in the whole command."""

    text: bytes
    outer: tuple[int, int]
    offset: int


class Trace:
    """The findings so far, and the current position in the command."""

    def __init__(self, text: str) -> None:
        self.findings: list[Finding] = []
        self.way: tuple[str, ...] = ()
        self.blanks: list[Blank] = []
        self._commands = 0
        self._steps = 0
        self._patterns = 0
        self._expanded = 0
        self._text = text.encode("utf-8", "replace")
        self._outer = (0, len(self._text))
        self._last_shown = (0, 0, b"")  # cached, because many findings show the same part
        self._shown = ""
        self._offset = 0  # where the current text starts in the command; -1 if it is not part of it

    @property
    def is_top(self) -> bool:
        """True while the analysis is in the command itself, not in a script inside it."""
        return not self.way and self._offset == 0

    def count(self) -> None:
        self._commands += 1
        if self._commands > MAX_COMMANDS:
            raise NotAnalysable(f"it contains more than {MAX_COMMANDS} commands")

    def step(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise NotAnalysable("its loops or functions are too long")

    def add(self, finding: Finding) -> None:
        if len(self.findings) >= MAX_FINDINGS:
            raise NotAnalysable("it does too many things")
        self.findings.append(finding)

    def allow(self, start: int, why: str) -> None:
        """Let the findings since `start` only read, unless one is worse than an unlisted program.

        The files that they name are still judged.
        """
        found = self.findings[start:]
        if all(finding.passes or "unlisted" in finding.traits for finding in found):
            self.findings[start:] = [
                replace(each, effect=Effect.READ, why=why, traits=()) for each in found
            ]

    def match(self, patterns: int) -> None:
        self._patterns += patterns
        if self._patterns > MAX_PATTERNS:
            raise NotAnalysable(f"it contains more than {MAX_PATTERNS} file name patterns")

    def spend(self, letters: int) -> None:
        self._expanded += letters
        if self._expanded > MAX_EXPANDED:
            raise NotAnalysable("its variables become too long")

    @contextmanager
    def inside(self, way: str) -> Iterator[None]:
        """Enter a command that a program runs. `way` names the program."""
        before = self.way
        self.way = (*before, way)
        if len(self.way) > MAX_DEPTH:
            raise NotAnalysable(f"it is nested more than {MAX_DEPTH} levels deep")
        try:
            yield
        finally:
            self.way = before

    @contextmanager
    def within(self, text: bytes, start: int, end: int, inner: int) -> Iterator[None]:
        """Enter a text that is a part of the current one or results from it."""
        before = self.context
        self._outer = self.span(start, end)
        exact = inner >= 0 and self._offset >= 0
        self._offset = self._offset + inner if exact else -1
        self._text = text
        try:
            yield
        finally:
            self._text, self._outer, self._offset = before

    @property
    def context(self) -> Context:
        """The current text and its position."""
        return Context(self._text, self._outer, self._offset)

    @contextmanager
    def again(self, context: Context) -> Iterator[None]:
        """Return temporarily to an earlier text, such as the body of a function."""
        before = self.context
        self._text, self._outer, self._offset = context
        try:
            yield
        finally:
            self._text, self._outer, self._offset = before

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the position of a part in the whole command, or of the text around it."""
        if self._offset < 0:
            return self._outer
        return self._offset + start, self._offset + end

    def shown(self, start: int, end: int) -> str:
        """Return a part of the current text. Long parts are shortened in the middle."""
        asked = start, end, self._text
        if asked != self._last_shown:
            self._last_shown = asked
            self._shown = self._cut(start, end)
        return self._shown

    def _cut(self, start: int, end: int) -> str:
        part = self._text[start:end]
        if len(part) > 2 * _ENDS:
            part = part[:_ENDS] + part[-_ENDS:]
        said = " ".join(part.decode("utf-8", "replace").split())
        if len(said) <= MAX_SHOWN:
            return said
        half = MAX_SHOWN // 2 - 1
        return f"{said[:half]}...{said[-half:]}"
