"""One call of a program in its context. Readers inspect it and add their findings to it."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from safetyd.core.shell import places
from safetyd.core.shell.calls import Call
from safetyd.core.shell.code.secret_names import clear_key
from safetyd.core.shell.reading import HOLE, RUNS_FILE, WHY, Access, Effect, Finding, Touch, Trait
from safetyd.core.shell.scope import Command, Scope, Trace
from safetyd.core.shell.words import (
    COMMAND,
    DECODED,
    KNOWN,
    NETWORK,
    NOTHING,
    PROJECT,
    UNKNOWN_TEXT,
    Flow,
    Word,
    mixed,
)

MAX_NAME: Final = 60

# Programs that print names, but no contents.
_NAMING: Final = frozenset({"ls", "find", "fd", "stat", "du", "wc", "tree", "git"})
# Programs that copy a whole folder.
_COPYING: Final = frozenset({"cp", "gcp", "tar", "gtar", "bsdtar", "zip", "7z", "7za", "rsync"})
_OUT: Final = frozenset({places.OUTSIDE, places.SYSTEM, places.HOME})


class Runner(Protocol):
    """Analyses the commands that a program runs, and looks up programs and lists."""

    def program(self, words: Sequence[Word], command: Command, scope: Scope, way: str) -> Flow: ...
    def text(
        self,
        text: str,
        word: Word,
        scope: Scope,
        way: str,
        stdin: Flow | None,
        given: Sequence[Word] = (),
    ) -> Flow: ...
    def trap(self, word: Word, scope: Scope, *, late: bool) -> None: ...
    def sourced(self, text: str, word: Word, scope: Scope, way: str) -> Flow: ...
    def listed(self, name: str) -> frozenset[str]: ...
    def knows(self, name: str) -> bool: ...
    def packaged(self, name: str) -> bool: ...


class Invocation:
    """A call of a program in its context: variables, folder, input, output."""

    def __init__(
        self, call: Call, command: Command, scope: Scope, trace: Trace, runner: Runner
    ) -> None:
        self.call = call
        self.command = command
        self.scope = scope
        self.runner = runner
        self.named = call.name  # with its verb, once known
        self.output = UNKNOWN_TEXT
        self._trace = trace
        self._said: str | None = None  # shared by all findings

    @property
    def written(self) -> str:
        """The command as written, shortened if it is long."""
        return self._trace.shown(self.command.start, self.command.end)

    @property
    def stdin(self) -> Flow | None:
        return self.command.stdin

    def found(  # noqa: PLR0913
        self,
        effect: Effect,
        why: str = "",
        *,
        type: str = "",  # noqa: A002 - it is the type of an action
        blocks: bool = False,
        remedy: str = "",
        remote: str | None = None,
        touches: tuple[Touch, ...] = (),
        program: str = "",
        said: str | None = None,
        traits: tuple[Trait, ...] = (),
        words: Sequence[Word] = (),
    ) -> None:
        """Add a finding. Without `why`, the reason is the general reason for the effect."""
        if effect is Effect.WORK and not touches and self._is_outside:
            effect, remedy = Effect.UNKNOWN, "in a folder of the project"
            why = f"works in {visible(self.scope.cwd or '')}, which is outside the project"
        command, trace = self.command, self._trace
        start, end = trace.span(command.start, command.end)
        if said is None:
            if self._said is None:
                self._said = _acting(command.words)
            said = self._said
        trace.add(
            Finding(
                effect=effect,
                why=why or WHY[effect],
                program=(program or self.named)[:MAX_NAME],
                blocks=blocks,
                type=type,
                touches=touches,
                remote=remote,
                remedy=remedy,
                shown=trace.shown(command.start, command.end),
                start=start,
                end=end,
                way=trace.way,
                traits=traits,
                said=said,
                words=tuple([word.text for word in words]) if words else (),
            )
        )

    @property
    def _is_outside(self) -> bool:
        """True if the current folder and the project are known, and the folder is outside it."""
        cwd, project = self.scope.cwd, self.scope.project
        return bool(cwd and project.root) and self.scope.place(".").kind in _OUT

    def found_help(self) -> None:
        self.found(Effect.READ, "prints its help or version")

    def found_open_input(self) -> None:
        """Record that the program reads commands, unless the command itself provides its input."""
        if self.stdin is None:
            self.found(Effect.READ, "reads commands from its input", traits=("open_input",))

    def find_keys(self) -> None:
        """Record a finding if the command contains a key or password in clear text."""
        if clear_key(self.call.name, self.call.words):
            self.found_key()

    def found_key(self) -> None:
        why = "contains a key or password in clear text, which other processes can see"
        self.found(Effect.SECRETS, why, remedy="with the key in a variable or a file")

    def reads(self, *words: Word) -> None:
        """Record that files are read. Guards decide whether they are secret."""
        if self.shows_only_names:
            self.found(Effect.READ, "shows names of files")
            return
        names: dict[str, None] = {}
        for word in words:
            _name_files(word.text, names)
        shows = self.call.name not in _NAMING
        patterns = {w.text for w in words if shows and (w.globs or w.matched or HOLE in w.text[1:])}
        if patterns:
            self._trace.match(len(patterns))
            # `*` may match nothing, so the name without it counts too.
            names |= {n.replace("*", ""): None for n in tuple(names) if "*" in n and n.strip("*./")}
        if names:
            touches = tuple([self._touch(n, Access.READ, n in patterns) for n in names])
            self.found(Effect.READ, "reads files", touches=touches)
        if shows:
            self._read_all([word for word in words if word.text[:1] in {"/", "~"}])

    def names(self, paths: Sequence[str]) -> None:
        """Record that a program may read files that its arguments name."""
        if paths:
            touches = tuple(dict.fromkeys(self._touch(path, Access.READ) for path in paths))
            self.found(Effect.READ, "reads files", touches=touches)

    @property
    def shows_only_names(self) -> bool:
        """True if the agent sees names and states of files, but no contents.

        A later command may use the names, so they must not be piped or substituted.
        """
        if self.scope.piped_to is not None or self._trace.way:
            return False
        naming = self.runner.listed("naming")
        if self.call.name not in naming and self.named not in naming:
            return False
        # `--files0-from=FILE` and the like show names that a file contains.
        return not any(word.text[:1] == "-" and "from" in word.text for word in self.call.words)

    def _read_all(self, words: Sequence[Word]) -> None:
        """Record that a program reads or copies all files of a home folder or the system."""
        for word in words:
            where = self.scope.place(word.text)
            folder = where.kind == places.HOME or places.holds_homes(where.path)
            if folder and ("**" in word.text or self.call.name in _COPYING):
                why = f"reads all of {visible(word.text)}, including keys and passwords"
                self.found(Effect.SECRETS, why, type="read_credentials")

    def writes(self, word: Word, what: str = "writes") -> None:
        self.changes(word.text, Access.WRITE, what)

    def saves(self, word: Word, flow: Flow, *, appends: bool = False) -> None:
        """Record that a file is written, and remember its new content."""
        where = self.scope.place(word.text)
        before = self.scope.files.get(where.path) if appends else None
        self.writes(word)
        if where.kind != places.STREAM and word.fixed:
            self.scope.files[where.path] = followed(before or NOTHING, flow)

    def changes(self, path: str, access: Access, what: str) -> None:
        """Record that a single file is written or deleted."""
        where = self.scope.place(path)
        touch = (Touch(where.path, access, path),)
        shown = visible(path)
        if where.kind == places.STREAM:
            return
        if where.path in self.scope.files:
            self.scope.files[where.path] = changed(self.scope.files[where.path])
        elif self.stdin is not None and self.stdin.origin in {DECODED, NETWORK}:
            self.scope.files[where.path] = changed(self.stdin)  # made of the program's input
        if where.kind in {places.INSIDE, places.TEMPORARY}:
            self.found(Effect.WORK, f"{what} {shown}", touches=touch)
        elif where.kind == places.DISK:
            why = f"{what} the disk {shown}"
            self.found(Effect.IRREVERSIBLE, why, blocks=True, touches=touch)
        elif where.kind == places.SOCKET:
            self.found(Effect.LEAVES, "opens a connection to another machine", touches=touch)
        elif where.kind == places.UNKNOWN:
            why = f"{what} {shown}, a path that is only known at run time"
            remedy = "with a literal path inside the project"
            self.found(Effect.IRREVERSIBLE, why, touches=touch, remedy=remedy)
        else:
            why = f"{what} {shown}, which is outside the project"
            remedy = "with a path inside the project"
            self.found(Effect.IRREVERSIBLE, why, touches=touch, remedy=remedy, type="modify_config")

    def shell(
        self, word: Word, way: str, stdin: Flow | None = None, given: Sequence[Word] = ()
    ) -> Flow:
        """Analyse a word as a shell script with its arguments, and return its output."""
        if not word.known:
            self.runs_unknown(word.origin, "a command")
            return Flow(None, word.origin)
        return self.runner.text(word.text, word, self.scope, way, stdin, given)

    def runs_unknown(self, origin: str, what: str) -> None:
        """Record that the command runs something whose content is unknown."""
        if origin == NETWORK:
            why, blocks = "runs downloaded code that nobody has reviewed", True
        elif origin == "decoded":
            why, blocks = "runs encoded text, which hides what it does", True
        else:
            why, blocks = f"runs {what}, which is only known at run time", False
        remedy = "with the commands written out"
        self.found(Effect.UNKNOWN, why, blocks=blocks, remedy=remedy)

    def runs_unknown_input(self, given: Flow) -> None:
        """Record that a program runs its input, such as the output of another command."""
        if given.origin == PROJECT:
            self.found(Effect.WORK, "runs a script of the project", traits=RUNS_FILE)
        else:
            self.runs_unknown(given.origin, "its input")
            self.output = Flow(None, given.origin)

    def source(self, word: Word) -> Flow | None:
        """Return the content of a file that the command runs, or at least the content's origin.

        Return None for a script of the project, which is trusted.
        """
        where = self.scope.place(word.text)
        if not word.fixed:
            return Flow(None, word.origin or COMMAND)
        known = self.scope.files.get(where.path) or self._fetched(where.path)
        if known is not None:
            return known
        own = where.kind == places.INSIDE or self.scope.elsewhere
        return None if own else Flow(None, where.kind)

    def _fetched(self, path: str) -> Flow | None:
        """Return an unknown content if the command has just cloned or unpacked a folder above."""
        files = self.scope.files
        while files and "/" in path:
            path = path.rpartition("/")[0]
            if path in files:
                return UNKNOWN_TEXT
        return None

    def script(self, word: Word, way: str, read: Callable[[str], None] | None = None) -> None:
        """Record the effect of running a file. Its content is analysed if it is known."""
        source = self.source(word)
        if source is None:
            touches = (self._touch(word.text, Access.READ),)
            why = f"runs {visible(word.text)}, a script of the project"
            self.found(Effect.WORK, why, touches=touches, traits=RUNS_FILE)
        elif source.text is not None and HOLE not in source.text:
            if read is None:
                self.runner.text(source.text, word._replace(inner=-1), self.scope, way, None)
            else:
                read(source.text)
        elif source.origin in {places.TEMPORARY, *_OUT, places.UNKNOWN}:
            why = f"runs {visible(word.text)}, which is outside the project"
            remedy = "with a script of the project"
            self.found(Effect.UNKNOWN, why, remedy=remedy, traits=RUNS_FILE)
        elif source.origin in {KNOWN, PROJECT}:
            self.found(
                Effect.UNKNOWN, f"runs {visible(word.text)}, which this command has just written"
            )
        else:
            self.runs_unknown(source.origin, visible(word.text))

    def _touch(self, path: str, access: Access, pattern: bool = False) -> Touch:  # noqa: FBT001, FBT002
        return Touch(self.scope.place(path).path, access, path, pattern)


def _acting(words: Sequence[Word]) -> str:
    """Join the words of a command, except quoted texts with spaces: messages, patterns, code."""
    return " ".join([w.text for w in words if not (w.quoted and " " in w.text)])


def _name_files(text: str, names: dict[str, None]) -> None:
    """Add the possible file names in a word, such as x in `--file=x`, `@x` and `host:x`."""
    if not text.startswith("-"):
        names[text] = None
    for sign in "=@:":
        if sign in text:
            names[text.rpartition(sign)[2]] = None


def changed(flow: Flow) -> Flow:
    """Return a flow with the same origin and unknown text, after a program transformed it."""
    return Flow(None, flow.origin or COMMAND)


def followed(before: Flow, after: Flow) -> Flow:
    """Join two flows."""
    known = before.text is not None and after.text is not None
    text = f"{before.text}{after.text}" if known else None
    return Flow(text, mixed([before.origin, after.origin]))


def visible(text: str) -> str:
    """Return the words of a command, shortened and readable, with `...` for unknown parts."""
    shown = text.replace(HOLE, "...")
    return shown if len(shown) <= MAX_NAME else f"{shown[: MAX_NAME - 3]}..."
