"""What holds while a command is read: variables, functions, files, and where it stands."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from tree_sitter import Node

from safetyd.core.shell.places import Place, Project, place
from safetyd.core.shell.reading import Blank, Finding
from safetyd.core.shell.tree.syntax import Unreadable, text_of
from safetyd.core.shell.words import COMMAND, UNKNOWN_TEXT, Flow, Word

POSITIONAL: Final = frozenset({*"123456789", "@", "*"})  # words that a function was given
MAX_DEPTH: Final = 12
MAX_COMMANDS: Final = 400
MAX_STEPS: Final = 10_000  # statements, as often as they are read
MAX_EXPANDED: Final = 1024 * 1024  # letters out of expansions
MAX_SHOWN: Final = 120
_ENDS: Final = 8 * MAX_SHOWN  # bytes of a long part, of which some are shown


class Redirect(NamedTuple):
    operator: str
    descriptor: str
    target: Word


class Command(NamedTuple):
    """A simple command, with its expansions made."""

    words: list[Word]
    assignments: list[tuple[str, Word]]
    redirects: list[Redirect]
    stdin: Flow | None  # None: whatever the agent's shell has
    start: int
    end: int


class Defined(NamedTuple):
    """A function, and what held where it was defined."""

    name: str
    body: Node
    scope: "Scope"
    context: "Context"


class Trap(NamedTuple):
    """A text that runs at the end, with what variables hold then."""

    text: str
    word: Word
    scope: "Scope"
    variables: dict[str, Flow]  # when it was set


class Scope:
    """The variables, functions and folder of a shell; a subshell has a copy."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.cwd: str | None = project.cwd or project.root
        self.variables: dict[str, Flow] = {}
        self.functions: dict[str, Node | str] = {}
        self.called: set[str] = set()
        self.entered: tuple[str, ...] = ()  # functions that are being read
        self.files: dict[str, Flow] = {}  # what was written, by absolute path; shared with copies
        self.elsewhere = False  # on another machine or in a container
        self.started: frozenset[str] = frozenset()  # commands in the background, as written
        self.made: frozenset[str] = frozenset()  # folders that surely were not there before
        self.moved: set[str] = set()  # where something was moved to; shared with copies
        self.piped_to: Node | None = None  # the next command of the same pipeline

    def copy(self, *, elsewhere: bool = False) -> "Scope":
        other = Scope.__new__(Scope)
        other.project = self.project
        other.cwd = self.cwd
        other.variables = self.variables.copy()
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

    @contextmanager
    def assigned(self, given: Sequence[tuple[str, Word]]) -> Iterator[None]:
        """Let variables hold for one command, as `A=b command` does."""
        before = {name: self.variables.get(name) for name, _ in given}
        during = {name: Flow(value.text, value.origin) for name, value in given}
        self.variables |= during
        try:
            yield
        finally:
            for name, value in before.items():
                if self.variables.get(name) is not during[name]:
                    self.variables[name] = UNKNOWN_TEXT  # the command changed it
                elif value is None:
                    del self.variables[name]
                else:
                    self.variables[name] = value

    def ended(self, made: frozenset[str], background: Node | None) -> None:
        """Forget what a statement made, as it may have failed, and keep what goes on behind it."""
        self.made = made
        if background is not None:
            self.started |= {text_of(background)}

    def take_over(self, inner: "Scope") -> None:
        """Take over what a function leaves behind.

        Whether a variable was its own is not asked: what it assigned is not known any more.
        """
        self.cwd = inner.cwd
        self.functions |= inner.functions
        for assigned, value in inner.variables.items():
            if assigned not in POSITIONAL and self.variables.get(assigned) is not value:
                self.variables[assigned] = Flow(None, value.origin or COMMAND)

    def place(self, word: str) -> Place:
        return place(word, self.cwd, self.project)

    def held(self, path: str) -> Flow | None:
        """Return what the command wrote into a file, if it did."""
        return self.files.get(self.place(path).path)


class Context(NamedTuple):
    """A text that is read, and where it stands in the whole."""

    text: bytes
    outer: tuple[int, int]
    offset: int


class Trace:
    """What was found, and where in the whole text reading stands."""

    def __init__(self, text: str) -> None:
        self.findings: list[Finding] = []
        self.way: tuple[str, ...] = ()
        self.blanks: list[Blank] = []
        self._commands = 0
        self._steps = 0
        self._expanded = 0
        self._text = text.encode("utf-8", "replace")
        self._outer = (0, len(self._text))
        self._asked = (0, 0, b"")  # the part that was shown last, since findings share it
        self._shown = ""
        self._offset = 0  # of the text that is read in the whole; -1: it does not stand there

    @property
    def is_top(self) -> bool:
        """Say whether the whole text itself is read, and not what comes out of it."""
        return not self.way and self._offset == 0

    def count(self) -> None:
        self._commands += 1
        if self._commands > MAX_COMMANDS:
            raise Unreadable(f"it has more than {MAX_COMMANDS} commands")

    def step(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise Unreadable("its loops or functions are too long")

    def spend(self, letters: int) -> None:
        self._expanded += letters
        if self._expanded > MAX_EXPANDED:
            raise Unreadable("its variables become too long")

    @contextmanager
    def inside(self, way: str) -> Iterator[None]:
        """Read what a program runs."""
        before = self.way
        self.way = (*before, way)
        if len(self.way) > MAX_DEPTH:
            raise Unreadable(f"it is nested more than {MAX_DEPTH} levels deep")
        try:
            yield
        finally:
            self.way = before

    @contextmanager
    def within(self, text: bytes, start: int, end: int, inner: int) -> Iterator[None]:
        """Read another text, which stands in a word of this one or comes out of it."""
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
        """The text that is read now, and where it stands."""
        return Context(self._text, self._outer, self._offset)

    @contextmanager
    def again(self, context: Context) -> Iterator[None]:
        """Go back to a text that was read before, as to that of a function."""
        before = self.context
        self._text, self._outer, self._offset = context
        try:
            yield
        finally:
            self._text, self._outer, self._offset = before

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where a part of this text, or what holds it, stands in the whole."""
        if self._offset < 0:
            return self._outer
        return self._offset + start, self._offset + end

    def shown(self, start: int, end: int) -> str:
        """Return a part as it stands in this text, cut in the middle if it is long."""
        asked = start, end, self._text
        if asked != self._asked:
            self._asked = asked
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
