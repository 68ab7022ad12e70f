"""Analyses simple commands: assignments, redirections, and the program that runs."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tree_sitter import Node

from safetyd.core.shell import places, rows, shape
from safetyd.core.shell.argument_rules import find_in_arguments
from safetyd.core.shell.calls import Call, split_command
from safetyd.core.shell.code.secret_names import is_key, shows_names_only
from safetyd.core.shell.declared_checks import DeclaredChecks
from safetyd.core.shell.invocation import Invocation, visible
from safetyd.core.shell.open_input import find_open_input
from safetyd.core.shell.programs import Program, Row, Table, Wraps
from safetyd.core.shell.reading import HOLE, OWN_PROGRAM, Effect, Trait, word_set
from safetyd.core.shell.scope import MAX_OPTIONS, NUMBERED, POSITIONAL, Command, Scope, Trace, Trap
from safetyd.core.shell.shell_setups import find_setup
from safetyd.core.shell.statements import Statements
from safetyd.core.shell.tree.assignments import DECLARING, forget_read
from safetyd.core.shell.tree.fork_bombs import forks_itself
from safetyd.core.shell.tree.syntax import NotAnalysable, counts_by_running
from safetyd.core.shell.unknown_options import find_unknown_options, printed
from safetyd.core.shell.words import (
    COMMAND,
    DECODED,
    DOWNLOADED,
    NETWORK,
    NOTHING,
    PROJECT,
    UNKNOWN_TEXT,
    Flow,
    Word,
    as_one,
    mixed,
)

Reader = Callable[[Invocation], None]

_WRITING: Final = frozenset({">", ">>", ">|", "&>", "&>>", "<>", ">&"})
_PATH: Final = "PATH"
_TRAP: Final = "trap"
_OWN: Final = "SAFETYD_"
_EXPORTED: Final = "BASH_FUNC_"
_TRACE: Final = "GIT_TRACE"
# Variables that contain options of a program.
_OPTIONS_OF: Final = {
    "FZF_DEFAULT_OPTS": "fzf",
    "SKIM_DEFAULT_OPTIONS": "sk",
    "LESS": "less",
    "PYTEST_ADDOPTS": "pytest",
}
_SWITCH: Final = "AI_COMPANY_ENABLED"
# Builtins that evaluate their words as arithmetic or as variables with a subscript.
_COUNTING: Final = word_set("""
    let test [ read unset printf declare local typeset export readonly mapfile readarray getopts
    wait shift exit return
""")
_PARTS: Final = re.compile(r"[\s=:,]|-[BILF](?=[/~])")
# Builtins after which some shells keep the variables set before them: `x=y eval ...`.
_SPECIAL: Final = word_set("""
    : . break continue eval exec exit return set shift source times trap unset
""")
_NO_PROGRAM: Final = Program("", Row())
_CHECK: Final = "is a check listed in the project's settings"


class Commands:
    """Analyses commands with the table, and with `readers` where a row is not enough."""

    def __init__(
        self,
        table: Table,
        readers: Mapping[str, Reader],
        trace: Trace,
        checks: DeclaredChecks | None = None,
    ) -> None:
        self._table = table
        self._checks = checks
        self._readers = readers
        self._trace = trace
        self._statements = Statements(self.run, trace, self.knows)
        self._traps: list[Trap] = []
        self._entered: set[int] = set()  # analysed functions, by the identity of their bodies

    def read(self, text: str, scope: Scope) -> None:
        """Analyse a whole text, including functions that it never calls."""
        self._statements.read(text, scope)
        self._analyse_uncalled(scope)
        for trap in tuple(self._traps):
            if trap.scope.variables != trap.variables:
                inner = trap.scope.copy()
                self._script(trap.text, trap.word, inner, _TRAP, None)
                if not trap.late and not trap.scope.untrusted.issuperset(inner.changed):
                    raise NotAnalysable("its trap sets variables that are only known at run time")

    def _analyse_uncalled(self, scope: Scope) -> None:
        """Analyse functions that were never called, including those of subshells."""
        for name in list(scope.functions):
            if name not in scope.called:
                self._function(name, [], None, scope.copy())
        defined = self._statements.defined
        while defined and (unread := defined.keys() - self._entered):
            for each in [each for each in defined if each in unread]:
                function = defined[each]
                inner = function.scope.copy()
                inner.functions[function.name] = function.body
                self._entered.add(each)
                self._function(function.name, [], None, inner)

    def listed(self, name: str) -> frozenset[str]:
        return self._table.lists.get(name, frozenset())

    def knows(self, name: str) -> bool:
        """Return True if a program is in the table."""
        return self._table.find(places.program_name(name)) is not None

    def packaged(self, name: str) -> bool:
        """Return True if a package of the same name provides the program."""
        program = self._table.find(name)
        return program is not None and program.is_package

    def text(
        self,
        text: str,
        word: Word,
        scope: Scope,
        way: str,
        stdin: Flow | None,
        given: Sequence[Word] = (),
    ) -> Flow:
        """Analyse a script that a program passes to a shell. The script does not change `scope`.

        `given` are the arguments of the script, if they are known.
        """
        inner = scope.copy()
        for name in POSITIONAL & inner.variables.keys():
            inner.variables[name] = UNKNOWN_TEXT  # the new shell has other arguments
        if given:
            inner.set_arguments(given)
        return self._script(text, word, inner, way, stdin)

    def trap(self, word: Word, scope: Scope, *, late: bool) -> None:
        """Analyse a script that runs on exit or, if it is not `late`, after any command."""
        start, end = self._trace.span(word.start, word.end)
        whole = word._replace(start=start, end=end, inner=-1)
        self._traps.append(Trap(word.text, whole, scope, scope.variables.copy(), late))
        inner = scope.copy()
        self._script(word.text, word, inner, _TRAP, None)
        if late:
            return
        if inner.cwd != scope.cwd:
            raise NotAnalysable("its trap changes the current directory")
        scope.untrusted |= set(inner.changed)
        scope.forget(scope.untrusted & scope.variables.keys())

    def _script(self, text: str, word: Word, inner: Scope, way: str, stdin: Flow | None) -> Flow:
        written = text.encode("utf-8", "replace")
        with self._trace.inside(way), self._trace.within(written, word.start, word.end, word.inner):
            flow = self._statements.read(text, inner, stdin)
            self._analyse_uncalled(inner)
        return flow

    def sourced(self, text: str, word: Word, scope: Scope, way: str) -> Flow:
        """Analyse a script that runs in the current shell, as with `eval` and `source`."""
        written = text.encode("utf-8", "replace")
        with self._trace.inside(way), self._trace.within(written, word.start, word.end, word.inner):
            return self._statements.read(text, scope, None)

    def program(self, words: Sequence[Word], command: Command, scope: Scope, way: str) -> Flow:
        """Analyse a command that a program runs."""
        with self._trace.inside(way):
            self._trace.count()
            inner = command._replace(words=list(words), redirects=[])
            return self._called(inner, scope)

    def run(self, command: Command, scope: Scope) -> Flow:
        found = len(self._trace.findings)
        if command.redirects:
            command = command._replace(stdin=self._input(command, scope))
        first = command.words[0].text if command.words else ""
        if command.assignments:
            self._assign(command, scope)
        if not command.words:
            flow = command.stdin or NOTHING
        elif not command.assignments or first in DECLARING:
            flow = self._called(command, scope)
        else:
            with scope.assigned(command.assignments):
                flow = self._called(command, scope)
            if first in _SPECIAL or first in scope.functions:
                scope.forget(name for name, _ in command.assignments)
        if command.redirects:
            flow = self._redirect(command, flow, scope)
        if self._trace.is_top:
            self._trace.blanks += shape.blanks(command, self._trace.findings[found:], scope.project)
        return flow

    def _invocation(self, command: Command, scope: Scope, name: str = "") -> Invocation:
        call = Call(_NO_PROGRAM, name, command.words[1:], command.stdin)
        return Invocation(call, command, scope, self._trace, self)

    def _input(self, command: Command, scope: Scope) -> Flow | None:
        """Return the standard input of a command after redirections."""
        stdin = command.stdin
        inv = self._invocation(command, scope)
        for redirect in command.redirects:
            if redirect.operator != "<" or redirect.descriptor not in {"", "0"}:
                continue
            inv.reads(redirect.target)
            where = scope.place(redirect.target.text)
            if not redirect.target.known:
                stdin = Flow(None, redirect.target.origin)
            elif where.kind == places.SOCKET:
                inv.found(Effect.LEAVES, "opens a connection to another machine")
                stdin = DOWNLOADED
            else:
                inside = where.kind == places.INSIDE
                unread = Flow(None, PROJECT if inside else COMMAND)
                empty = where.path == "/dev/null"
                stdin = NOTHING if empty else scope.files.get(where.path, unread)
        return stdin

    def _redirect(self, command: Command, flow: Flow, scope: Scope) -> Flow:
        """Record the files to which output is redirected. Return the rest of the output."""
        inv = self._invocation(command, scope, ">")
        for redirect in command.redirects:
            target = redirect.target
            if redirect.operator not in _WRITING or not target.text:
                continue
            if redirect.operator == ">&" and (target.text.isdecimal() or target.text == "-"):
                continue
            if redirect.descriptor in {"", "1", "&"}:
                inv.saves(target, flow, appends=">>" in redirect.operator)
                flow = NOTHING
            else:
                inv.writes(target)
        return flow

    def _assign(self, command: Command, scope: Scope) -> None:
        for given in command.assignments:
            self._variable(*given, command, scope)
        if not command.words or command.words[0].text in DECLARING:
            for name, value in command.assignments:
                scope.set(name, Flow(value.text, value.origin))

    def _declare(self, builtin: str, command: Command, scope: Scope) -> None:
        """Set the variables in the words of `export`, `declare` and similar builtins."""
        names = {name for name, _ in command.assignments}
        fixed = builtin == "readonly"
        for word in command.words[1:]:
            target, equals, text = word.text.partition("=")
            if target[:1] in {"-", "+"}:
                _check_flags(builtin, target)
                fixed = fixed or "r" in target
            elif HOLE in target:
                self._declare_unknown(word, command, scope)
            elif (name := target.removesuffix("+").partition("[")[0]).isidentifier():
                if equals:
                    known = name == target and name not in names and text[:1] != "("
                    value = word.with_text(text if known else HOLE)
                    self._variable(name, value, command, scope)
                    scope.set(name, Flow(value.text, value.origin or COMMAND))
                if text[:1] == "(" and not set("$`").isdisjoint(text):
                    raise NotAnalysable("it declares an array with text that can run commands")
                names.add(name)
        if fixed:
            scope.untrusted |= names  # later assignments fail

    def _declare_unknown(self, word: Word, command: Command, scope: Scope) -> None:
        """Record that a command sets a variable whose name is unknown."""
        scope.forget_all()
        if word.origin in {DECODED, NETWORK}:
            why = "sets variables whose names are only known at run time"
            self._invocation(command, scope, command.words[0].text).found(Effect.UNKNOWN, why)

    def _variable(self, name: str, value: Word, command: Command, scope: Scope) -> None:
        """Record the effects of a variable on other programs."""
        if is_key(value.text):
            self._invocation(command, scope, name).found_key()
        if counts_by_running(value.text):
            why = "assigns text that runs a command if it is used in arithmetic"
            self._invocation(command, scope, name).found(Effect.UNKNOWN, why)
        if name.startswith(_OWN) or name == _SWITCH:
            inv = self._invocation(command, scope, OWN_PROGRAM)
            inv.found(Effect.PRIVILEGED, f"sets {name}, which belongs to safetyd", blocks=True)
        elif name in self.listed("agent_variables"):
            why = f"sets {name}, which can disable the safety hooks of another agent"
            self._invocation(command, scope, name).found(Effect.UNKNOWN, why, blocks=True)
        elif name == _PATH and not _is_usual_path(value.text, scope):
            why = "changes PATH, so that other programs may run under the same names"
            self._invocation(command, scope, name).found(Effect.UNKNOWN, why)
        elif name in self.listed("placed_variables") and not _is_own_place(value.text, scope):
            why = f"sets {name} to a location outside the project"
            self._invocation(command, scope, name).found(Effect.UNKNOWN, why)
        elif name.startswith(_EXPORTED):
            why = "defines a function for other shells"
            self._invocation(command, scope, name).found(Effect.UNKNOWN, why)
        elif value.text:
            self._loading(name, value, command, scope)

    def _loading(self, name: str, value: Word, command: Command, scope: Scope) -> None:
        """Record a variable that makes programs load or run something."""
        if name in self.listed("loading_variables"):
            why = f"sets {name}, which makes programs load or run other code"
            self._invocation(command, scope, name).found(Effect.UNKNOWN, why)
        elif name in _OPTIONS_OF:
            self._options_of(_OPTIONS_OF[name], name, value, command, scope)
        elif name.startswith(_TRACE) or name in self.listed("writing_variables"):
            if not value.known or "/" in value.text:
                self._invocation(command, scope, name).writes(value)
        elif name in self.listed("running_variables"):
            if value.known:
                self.text(value.text, value, scope, f"{name}=", None)
            else:
                why = f"sets {name}, which programs run, to a value that is only known at run time"
                self._invocation(command, scope, name).found(Effect.UNKNOWN, why)

    def _options_of(
        self, program: str, name: str, value: Word, command: Command, scope: Scope
    ) -> None:
        """Analyse a variable that contains options of a program."""
        try:
            given = shlex.split(value.text)
        except ValueError:
            raise NotAnalysable(f"the quotes in {name} do not match") from None
        words = [value.with_text(text) for text in (program, *given)]
        self.program(words, command, scope.copy(), f"{name}=")

    def _called(self, command: Command, scope: Scope) -> Flow:
        covered = self._checks.find(command, scope) if self._checks is not None else ""
        if covered == "exact":
            inv = self._invocation(command, scope, command.words[0].text)
            inv.found(Effect.READ, _CHECK)
            return inv.output
        found = len(self._trace.findings)
        flow = self._looked_up(command, scope)
        if covered:
            self._trace.allow(found, _CHECK)
        return flow

    def _looked_up(self, command: Command, scope: Scope) -> Flow:
        first = command.words[0]
        if not first.fixed:
            blocks = first.origin in {"network", "decoded"}
            why = "runs a program whose name is only known at run time"
            self._invocation(command, scope).found(Effect.UNKNOWN, why, blocks=blocks)
            return UNKNOWN_TEXT
        if first.text in scope.functions:
            flow = self._function(first.text, command.words[1:], command.stdin, scope)
            # The definition may not be in effect: `alias rm=ls; \rm`, `unset -f rm; rm`.
            if self._table.find(first.text) is None:
                return flow
            return Flow(None, mixed([flow.origin, self._found(first, command, scope).origin]))
        return self._found(first, command, scope)

    def _found(self, first: Word, command: Command, scope: Scope) -> Flow:
        """Analyse a program by its name."""
        name = places.program_name(first.text)
        program = self._table.find(name) if name else None
        if name in _COUNTING and any(counts_by_running(word.text) for word in command.words[1:]):
            raise NotAnalysable("it contains a subscript that runs a command")
        forget_read(name, command.words[1:], scope)
        if name in DECLARING:
            self._declare(name, command, scope)
        if program is None:
            return self._unknown(first, name, command, scope)
        return self._known(program, name, command, scope)

    def _known(self, program: Program, name: str, command: Command, scope: Scope) -> Flow:
        name = OWN_PROGRAM if program.name == OWN_PROGRAM else name
        call = Call(program, name, command.words[1:], command.stdin)
        if len(call.options) > MAX_OPTIONS:
            raise NotAnalysable(f"it contains more than {MAX_OPTIONS} options of {name}")
        inv = Invocation(call, command, scope, self._trace, self)
        row, found = program.row, len(self._trace.findings)
        inv.find_keys()
        if call.asks_help:
            inv.found_help()
        elif find_setup(inv):
            return inv.output
        elif row.reader:
            self._readers[row.reader](inv)
        elif row.wraps is not None:
            self._wrapped(row.wraps, inv)
        else:
            rows.apply(inv)
        find_open_input(inv, self.listed("open_input"))
        find_unknown_options(inv, call, self._trace.findings[found:])
        find_in_arguments(inv, call, self._trace.findings[found:])
        return printed(inv, call)

    def _wrapped(self, wraps: Wraps, inv: Invocation) -> None:
        row = inv.call.program.row
        own, inner = split_command(inv.call, wraps)
        if row.effect is not None and (inner or not wraps.optional):
            inv.found(row.effect, row.why, type=row.type, blocks=row.blocks)
        for option, value in inv.call.options:
            if option in row.writes and value is not None:
                inv.writes(value)
            elif option in row.runs and value is not None:
                inv.output = inv.shell(value, f"{inv.call.name} {option}", inv.stdin)
        given: list[tuple[str, Word]] = []
        if wraps.assigns and inner and inner[0].text == "-":
            inner = inner[1:]  # `env -` starts with no variables
        while wraps.assigns and inner and "=" in inner[0].text.lstrip("-"):
            name, _, text = inner[0].text.partition("=")
            given.append((name, inner[0]._replace(text=text)))
            self._variable(*given[-1], inv.command, inv.scope)
            inner = inner[1:]
        if inner:
            with inv.scope.assigned(given):
                inv.output = self._inner(wraps, own, inner, inv)
            return
        effect = row.bare or (Effect.READ if wraps.optional else Effect.UNKNOWN)
        if effect is Effect.SECRETS and shows_names_only(inv.scope.piped_to):
            effect = Effect.READ
        if row.effect is None or effect is not Effect.READ:
            inv.found(effect, row.why)

    def _inner(self, wraps: Wraps, own: Call, inner: list[Word], inv: Invocation) -> Flow:
        """Analyse the command that a wrapper runs."""
        command, scope = inv.command, inv.scope
        if wraps.input:
            origin = COMMAND if inv.stdin is None else inv.stdin.origin or COMMAND
            inner.append(Word(HOLE, command.start, command.end, origin))
        for folder in own.values(*wraps.folder):
            scope = scope.copy()
            scope.cwd = scope.place(folder.text).path if folder.fixed else None
        if not wraps.text:
            return self.program(inner, command, scope, inv.call.name)
        return inv.shell(as_one(inner), inv.call.name, inv.stdin)

    def _unknown(self, first: Word, name: str, command: Command, scope: Scope) -> Flow:
        inv = self._invocation(command, scope, name or first.text)
        if not name:  # a path, not a name
            inv.script(first, first.text)
            inv.reads(*command.words[1:])
            return inv.output
        only_help = {word.text for word in command.words[1:]} <= {"--version", "--help"}
        if only_help and len(command.words) == 2:  # noqa: PLR2004 - the program and one option
            inv.found_help()
            return inv.output
        verb = next((w.text for w in command.words[1:] if not w.text.startswith("-")), "")
        if verb and verb.replace("-", "").replace(":", "").isalnum() and HOLE not in verb:
            inv.named = f"{name} {verb}"
        why = f"runs {visible(name)}, which is not in the table of programs"
        verbs = f'work = ["{verb}"]' if inv.named != name else 'effect = "work"'
        bare = len(command.words) == 1 and command.stdin is None
        traits: tuple[Trait, ...] = ("unlisted", "open_input") if bare else ("unlisted",)
        remedy = f"with [shell.programs.{name}] {verbs}"
        inv.found(Effect.UNKNOWN, why, remedy=remedy, traits=traits, words=command.words[1:])
        inv.reads(*command.words[1:])
        return inv.output

    def _function(self, name: str, given: Sequence[Word], stdin: Flow | None, scope: Scope) -> Flow:
        """Analyse the body of a function or alias with its arguments."""
        body = scope.functions[name]
        scope.called.add(name)
        identity = name if isinstance(body, str) else str(body.id)
        entered = scope.entered.count(identity)
        if not isinstance(body, str):
            self._entered.add(body.id)
            if forks_itself(name, body):
                self._fork_bomb(name, body, scope)
                return UNKNOWN_TEXT
        if entered > 1:
            return UNKNOWN_TEXT
        inner = scope.copy()
        inner.entered = (*scope.entered, identity)
        if isinstance(body, str):
            flow = self._alias(name, body, given, inner, stdin)
        else:
            # Analyse a recursive call once more, with unknown arguments.
            unknown = [Word(HOLE, 0, 0, COMMAND)] * len(NUMBERED)
            inner.set_arguments(unknown if entered else given)
            with self._trace.inside(name):
                flow = self._statements.body(body, inner, stdin)
        scope.take_over(inner)
        return flow

    def _fork_bomb(self, name: str, body: Node, scope: Scope) -> None:
        whole = Command([], [], [], None, body.start_byte, body.end_byte)
        why = "starts endless copies of itself (a fork bomb)"
        with self._trace.again(self._statements.defined[body.id].context):
            self._invocation(whole, scope, name).found(Effect.UNKNOWN, why, blocks=True)

    def _alias(
        self, name: str, body: str, given: Sequence[Word], scope: Scope, stdin: Flow | None
    ) -> Flow:
        del scope.functions[name]  # inside the alias, the name means the program
        text = " ".join((body, *(word.text for word in given)))
        if HOLE in text:
            raise NotAnalysable(f"the alias {name} has arguments that are only known at run time")
        return self.text(text, Word(text, 0, 0), scope, name, stdin)


def _check_flags(builtin: str, flags: str) -> None:
    """Raise for options that make a variable differ from the assigned text."""
    if builtin != "export" and ("n" in flags or HOLE in flags):
        raise NotAnalysable("it makes one variable refer to another")
    if builtin != "export" and not set("luc").isdisjoint(flags):
        raise NotAnalysable("it makes the shell change the text of a variable")


def _is_own_place(value: str, scope: Scope) -> bool:
    """Return True if a value has no URL, and only paths of the project or of usual programs."""
    files = [part for part in _PARTS.split(value) if part[:1] in {"/", "~"}]
    return "://" not in value and all(
        ("/" in file and places.program_name(file)) or scope.place(file).kind == places.INSIDE
        for file in files
    )


def _is_usual_path(value: str, scope: Scope) -> bool:
    """Return True if a PATH has only folders of the project and the usual program folders."""
    for folder in value.split(":"):
        if folder in {"", HOLE, "$PATH"} or HOLE in folder:
            continue
        usual = places.program_name(f"{folder.rstrip('/')}/x") == "x"
        if not usual and scope.place(folder).kind != places.INSIDE:
            return False
    return True
