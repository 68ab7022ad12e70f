"""Walks the syntax tree of a script in the order of execution."""

import functools
import re
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Final

from tree_sitter import Node

from safetyd.core.shell.places import INSIDE
from safetyd.core.shell.scope import Command, Defined, Scope, Trace
from safetyd.core.shell.tree import syntax
from safetyd.core.shell.tree.arithmetic import as_commands
from safetyd.core.shell.tree.assignments import Assigned, assignment
from safetyd.core.shell.tree.redirections import opened
from safetyd.core.shell.tree.syntax import REDIRECTS, SILENT, NotAnalysable, text_of
from safetyd.core.shell.words import (
    COMMAND,
    KNOWN,
    LIST,
    NOTHING,
    UNKNOWN_TEXT,
    Flow,
    Values,
    Word,
    expand,
    least_trusted,
    run_inside,
    together,
)

MAX_ROUNDS: Final = 6  # analysed repetitions of a loop over known words

_OPENED: Final = "/dev/fd/substituted-"  # a file name for `<(...)`
_escaped_in_backticks = re.compile(r"\\([$`\\])").sub

Run = Callable[[Command, Scope], Flow]

_ENDS_OF_CASES: Final = frozenset({";;", ";&", ";;&"})
_ARITHMETIC: Final = frozenset({"((", "$(("})
# The end of a command that leaves the shell or the function: `exit 1`, `{ echo x; exit; }`.
_exits = re.compile(
    r"(?:.*[;\n{(]\s*)?(?:exit|return)(?:\s+[\w$?]+)?\s*;?\s*\}?", re.DOTALL
).fullmatch
_LOOPS: Final = frozenset({"while_statement", "c_style_for_statement"})


class Statements:
    """Analyses scripts. It calls `run` for each simple command."""

    def __init__(self, run: Run, trace: Trace, knows: Callable[[str], bool]) -> None:
        self._run, self._trace, self._knows = run, trace, knows
        self._assigned = Assigned()
        self.defined: dict[int, Defined] = {}  # functions by the identity of their bodies

    def read(self, text: str, scope: Scope, stdin: Flow | None = None) -> Flow:
        """Analyse a script and return its output."""
        words = syntax.plain_words(text)
        if words is not None:
            return self._plain(text, words, scope, stdin)
        root = syntax.tree(text.encode("utf-8", "replace"))
        return self._each(root.children, scope, stdin)

    def body(self, node: Node, scope: Scope, stdin: Flow | None) -> Flow:
        """Analyse the body of a function."""
        with self._trace.again(self.defined[node.id].context):
            return self._statement(node, scope, stdin)

    def _plain(self, text: str, given: Sequence[str], scope: Scope, stdin: Flow | None) -> Flow:
        at, words = 0, []
        for word in given:
            at = text.index(word, at)
            end = at + len(word)
            words.append(Word(word, at, end, KNOWN, False, False, at))  # noqa: FBT003 - it is quicker
            at = end
        self._trace.count()
        return self._run(Command(words, [], [], stdin, words[0].start, at), scope)

    def _each(self, nodes: Sequence[Node], scope: Scope, stdin: Flow | None) -> Flow:
        """Analyse statements in order and return their output."""
        printed = []
        for at, node in enumerate(nodes):
            if node.type in _ENDS_OF_CASES:
                raise NotAnalysable(f"it contains {node.type} in an unexpected place")
            if node.is_named and node.type not in SILENT:
                apart = False
                if at + 1 < len(nodes):
                    apart = nodes[at + 1].type == "&"
                    syntax.check_apart(each for each in nodes[at : at + 2] if each.is_named)
                made, stayed = scope.made, scope.stayed
                printed.append(self._statement(node, scope.copy() if apart else scope, stdin))
                if scope.errexit and scope.stayed is not stayed and _is_command(node):
                    scope.stayed = frozenset()  # the shell exits if cd fails
                scope.ended(made, node if apart else None)
        return together(printed)

    def _statement(self, node: Node, scope: Scope, stdin: Flow | None) -> Flow:
        read = self._KINDS.get(node.type)
        if read is None:
            what = node.type.replace("_", " ")
            raise NotAnalysable(f"it contains a {what} in an unexpected place")
        self._trace.step()
        return read(self, node, scope, stdin)

    def _inner(self, node: Node, scope: Scope, stdin: Flow | None) -> Flow:
        return self._each(node.children, scope, stdin)

    def _negated(self, node: Node, scope: Scope, stdin: Flow | None) -> Flow:
        syntax.check_apart(node.children)
        return self._inner(node, scope, stdin)

    def _list(self, node: Node, scope: Scope, stdin: Flow | None) -> Flow:
        """Analyse `a && b || c`. Variables set by a part that may not run become unknown."""
        printed, doubtful, before = list[Flow](), list[Node](), scope.cwd
        mark, start, failed = len(scope.changed), scope.cwd, frozenset[str | None]()
        stayed, previous = scope.stayed, node
        for operator, part in syntax.operands(node):
            if operator == "&&" and scope.stayed is not stayed and _is_command(previous):
                failed |= scope.stayed
                scope.stayed = frozenset()  # cd has not failed
            stayed, previous = scope.stayed, part
            if operator == "||":
                self._forget(doubtful, scope, before, mark)
                doubtful.clear()  # the variables of these parts are unknown until assigned again
                mark = len(scope.changed)
            printed.append(self._statement(part, scope, stdin))
            if operator == "||" and _exits(text_of(part)):
                scope.stayed, failed, start = frozenset(), frozenset(), scope.cwd
            if not operator:
                before, mark = scope.cwd, len(scope.changed)
                continue
            doubtful.append(part)
            if operator == "||":
                self._forget(doubtful, scope, before, mark)
                doubtful.clear()
                mark = len(scope.changed)
        self._forget(doubtful, scope, before, mark)
        _may_be_in(start, scope)
        scope.stayed |= failed
        return together(printed)

    def _forget(self, nodes: Sequence[Node], scope: Scope, cwd: str | None, mark: int) -> None:
        """Forget variables and folder changes of statements that may not run.

        `mark` is the number of changed variables before them.
        """
        scope.made = frozenset()
        for node in nodes:
            self._assigned.forget(node, scope)
        scope.forget_since(mark)
        if scope.cwd != cwd and (cwd is None or scope.place(cwd or ".").kind != INSIDE):
            scope.cwd = None

    def _subshell(self, node: Node, scope: Scope, stdin: Flow | None) -> Flow:
        return self._each(node.children, scope.copy(), stdin)

    def _test(self, node: Node, scope: Scope, stdin: Flow | None) -> Flow:  # noqa: ARG002
        if syntax.counts_by_running(text_of(node)):
            raise NotAnalysable("it contains a subscript that runs a command")
        run_inside(node, self._values(scope))
        return NOTHING

    def _values(self, scope: Scope) -> Values:
        run = functools.partial(self._substitution, scope=scope)
        return Values(scope.variables, run, self._trace.spend, functools.partial(_change, scope))

    def _substitution(self, node: Node, scope: Scope) -> Flow:
        """Analyse `$(...)` or `<(...)`, which runs in a subshell."""
        if node.type == "process_substitution":
            with self._trace.inside("<(...)"):
                given = None if node.children[0].type == "<(" else UNKNOWN_TEXT
                printed = self._each(node.children, scope.copy(), given)
            path = f"{_OPENED}{len(scope.files)}"
            scope.files[path] = printed
            return Flow(path, KNOWN)
        with self._trace.inside("$(...)"):
            if node.children[0].type == "`" and "\\" in text_of(node):
                return self._backticks(node, scope.copy())
            inner = [child for child in node.children if child.is_named]
            # `$(< file)` prints the file.
            if inner and all(child.type == "file_redirect" for child in inner):
                return self._bare_redirects(inner, node, scope.copy(), None)
            return self._each(node.children, scope.copy(), None)

    def _backticks(self, node: Node, scope: Scope) -> Flow:
        """Analyse a command in backticks, after removing one level of escapes."""
        text = _escaped_in_backticks(r"\1", text_of(node)[1:-1])
        with self._trace.within(text.encode(), node.start_byte, node.end_byte, -1):
            return self.read(text, scope)

    def _simple(self, node: Node, scope: Scope, stdin: Flow | None) -> Flow:
        return self._command(node, (), scope, stdin)

    def _piped(self, node: Node, scope: Scope, stdin: Flow | None) -> Flow:
        return self._pipeline(node.children, scope, stdin)

    def _pipeline(self, nodes: Sequence[Node], scope: Scope, stdin: Flow | None) -> Flow:
        """Analyse a pipeline, in which every part runs in a subshell."""
        stages = [node for node in nodes if node.is_named and node.type not in SILENT]
        flow = stdin
        for stage, following in zip_longest(stages, stages[1:]):
            inner = scope.copy() if len(stages) > 1 else scope
            inner.piped_to = following
            flow = self._statement(stage, inner, flow)
            if following is None and inner is not scope:
                _take_over_last(inner, scope)
        return flow or NOTHING

    def _compound(self, node: Node, scope: Scope, stdin: Flow | None) -> Flow:
        if node.children and node.children[0].type in _ARITHMETIC:
            run_inside(node, self._values(scope))
            if text := as_commands(node, scope.variables, self._knows):
                start, end = node.start_byte, node.end_byte
                with self._trace.within(text.encode("utf-8", "replace"), start, end, start + 2):
                    self.read(text, scope.copy(), stdin)
            self._assigned.forget(node, scope)
            return NOTHING
        if not any(child.is_named for child in node.children):
            raise NotAnalysable("it contains empty brackets")
        return self._each(node.children, scope, stdin)

    def _branches(self, node: Node, scope: Scope, stdin: Flow | None) -> Flow:
        """Analyse every branch. Variables that a branch assigns become unknown."""
        before = scope.cwd
        if node.type == "case_statement":
            syntax.check_case(node)
        names, mark = self._assigned.forget(node, scope), len(scope.changed)
        printed = []
        for child in node.children:
            if not child.is_named or child.type in SILENT:
                continue
            if child.type == "case_item":
                printed.append(self._case(child, scope, stdin))
            elif child.type in self._KINDS:
                printed.append(self._statement(child, scope, stdin))
            else:
                self._substitutions_of(child, scope)
        if node.type in _LOOPS:
            _check_loop(names, scope, mark)
        self._forget([node], scope, before, mark)
        _may_be_in(before, scope)
        return Flow(None, least_trusted([COMMAND, *(flow.origin for flow in printed)]))

    def _case(self, node: Node, scope: Scope, stdin: Flow | None) -> Flow:
        closed, statements = False, []
        for child in node.children:
            if child.type == ")":
                closed = True
            elif child.is_named and not closed:
                self._substitutions_of(child, scope)
            elif child.is_named:
                statements.append(child)
        return self._each(statements, scope, stdin)

    def _for(self, node: Node, scope: Scope, stdin: Flow | None) -> Flow:
        name, words, bodies = "", list[Word](), list[Node]()
        for child in node.children:
            if child.type == "variable_name" and not name:
                name = text_of(child)
            elif child.type in {"do_group", "compound_statement"}:
                bodies.append(child)
            elif child.is_named and child.type not in SILENT:
                words += expand(child, self._values(scope))
        names, mark, before = self._assigned.forget(node, scope), len(scope.changed), scope.cwd
        rounds = words if 0 < len(words) <= MAX_ROUNDS and all(w.known for w in words) else []
        origin = least_trusted([COMMAND, *(w.origin for w in words if w.origin != LIST)])
        printed = []
        for value in [Flow(w.text, "", w.globs) for w in rounds] or [Flow(None, origin)]:
            scope.set(name, value)
            printed += [self._statement(each, scope, stdin) for each in bodies]
        _check_loop(names, scope, mark)
        _may_be_in(before, scope)
        self._assigned.forget(node, scope)
        return together(printed)

    def _define(self, node: Node, scope: Scope, stdin: Flow | None) -> Flow:  # noqa: ARG002
        name = next(c for c in node.children if c.type == "word")
        body_ = node.children[-1]
        syntax.check_apart(child for child in node.children if child.is_named)
        if body_.text is not None and body_.text[:2] in {b"[", b"[ "}:
            raise NotAnalysable("it defines a function without a body")
        called = text_of(name)
        scope.functions[called] = body_
        scope.called.discard(called)
        self.defined.setdefault(body_.id, Defined(called, body_, scope, self._trace.context))
        return NOTHING

    def _assignments_alone(self, node: Node, scope: Scope, stdin: Flow | None) -> Flow:  # noqa: ARG002
        nodes = [node] if node.type == "variable_assignment" else node.children
        syntax.check_apart(nodes)
        values = self._values(scope)
        given = [assignment(n, values) for n in nodes if n.type == "variable_assignment"]
        return self._run(Command([], given, [], None, node.start_byte, node.end_byte), scope)

    def _declaration(self, node: Node, scope: Scope, stdin: Flow | None) -> Flow:  # noqa: ARG002
        """Analyse `export A=b`, `declare -x`, `unset` and similar builtins."""
        given, words = [], []
        syntax.check_apart(node.children)
        for child in node.children:
            if child.type == "variable_assignment":
                given.append(assignment(child, self._values(scope)))
            elif child.is_named:
                words += expand(child, self._values(scope))
            else:
                words.append(Word(text_of(child), child.start_byte, child.end_byte))
        self._trace.count()
        return self._run(Command(words, given, [], None, node.start_byte, node.end_byte), scope)

    def _redirected(self, node: Node, scope: Scope, stdin: Flow | None) -> Flow:
        inner = [c for c in node.children if c.type not in REDIRECTS and c.is_named]
        redirects = [c for c in node.children if c.type in REDIRECTS]
        hanging = [c for r in redirects if r.type == "heredoc_redirect" for c in r.children]
        after = [child for child in hanging if child.type in self._KINDS]
        if not inner:
            flow = self._bare_redirects(redirects, node, scope, stdin)
        elif inner[0].type == "command":
            flow = self._command(inner[0], redirects, scope, stdin)
        elif inner[0].type in {"pipeline", "list"}:
            # A redirection belongs to the last command, but the tree attaches it to the list.
            flow = self._last_redirected(inner[0], redirects, scope, stdin)
        else:
            stdin, made, words = opened(redirects, self._values(scope), stdin)
            if words:
                raise NotAnalysable("it contains words in an unexpected place")
            flow = self._statement(inner[0], scope, stdin)
            self._trace.count()
            flow = self._run(Command([], [], made, flow, node.start_byte, node.end_byte), scope)
        return self._after_heredoc(after, flow, scope)

    def _last_redirected(
        self, node: Node, redirects: Sequence[Node], scope: Scope, stdin: Flow | None
    ) -> Flow:
        piped = node.type == "pipeline"
        named = [c for c in node.children if c.is_named and c.type not in SILENT]
        if not piped and "||" not in dict(parts := syntax.operands(node)):
            named = [part for _, part in parts]
        flow, printed = stdin, list[Flow]()
        for child in named:
            inner = scope.copy() if piped else scope
            if child is not named[-1]:
                flow = self._statement(child, inner, flow if piped else stdin)
            elif child.type == "command":
                flow = self._command(child, redirects, inner, flow if piped else stdin)
            else:
                flow = flow if piped else stdin
                given, made, words = opened(redirects, self._values(inner), flow)
                if words:
                    raise NotAnalysable("it contains words in an unexpected place")
                flow = self._statement(child, inner, given)
                self._run(Command([], [], made, flow, node.start_byte, node.end_byte), inner)
            if piped and child is named[-1]:
                _take_over_last(inner, scope)
            printed.append(flow)
        return flow if piped and flow is not None else together(printed)

    def _after_heredoc(self, nodes: Sequence[Node], flow: Flow, scope: Scope) -> Flow:
        """Analyse the rest of the line after `<<EOF`. The tree attaches it to the redirection."""
        for node in nodes:
            if node.type == "pipeline":
                flow = self._pipeline(node.children, scope, flow)
            else:
                flow = self._statement(node, scope, None)
        return flow

    def _bare_redirects(
        self, redirects: Sequence[Node], node: Node, scope: Scope, stdin: Flow | None
    ) -> Flow:
        stdin, made, words = opened(redirects, self._values(scope), stdin)
        self._trace.count()
        command = Command(words, [], made, stdin, node.start_byte, node.end_byte)
        return self._run(command, scope)

    def _command(
        self, node: Node, redirects: Sequence[Node], scope: Scope, stdin: Flow | None
    ) -> Flow:
        words, assignments, inner = list[Word](), list[tuple[str, Word]](), list[Node]()
        values = self._values(scope)
        children = node.children
        syntax.check_apart((*children, *redirects))
        for child in children:
            kind = child.type
            if kind == "variable_assignment":
                assignments.append(assignment(child, values))
            elif kind in REDIRECTS:
                inner.append(child)
            elif kind == "subshell":
                raise NotAnalysable("it contains brackets in place of a word")
            elif kind == "command_name" and syntax.begins_with_syntax(child):
                raise NotAnalysable("it contains a keyword in an unexpected place")
            else:
                words += expand(child, values)
        stdin, made, further = opened([*inner, *redirects], values, stdin)
        end = max((r.end_byte for r in redirects if r.type != "heredoc_redirect"), default=0)
        self._trace.count()
        command = Command(
            [*words, *further], assignments, made, stdin, node.start_byte, max(node.end_byte, end)
        )
        return self._run(command, scope)

    def _substitutions_of(self, node: Node, scope: Scope) -> None:
        if node.type in {"command_substitution", "process_substitution"}:
            self._substitution(node, scope)
        else:
            run_inside(node, self._values(scope))

    # The method for each kind of statement.
    _KINDS: Final[dict[str, Callable[["Statements", Node, Scope, Flow | None], Flow]]] = {
        "c_style_for_statement": _branches,
        "case_statement": _branches,
        "command": _simple,
        "compound_statement": _compound,
        "declaration_command": _declaration,
        "do_group": _inner,
        "elif_clause": _branches,
        "else_clause": _inner,
        "for_statement": _for,
        "function_definition": _define,
        "if_statement": _branches,
        "list": _list,
        "negated_command": _negated,
        "pipeline": _piped,
        "redirected_statement": _redirected,
        "subshell": _subshell,
        "test_command": _test,
        "unset_command": _declaration,
        "variable_assignment": _assignments_alone,
        "variable_assignments": _assignments_alone,
        "while_statement": _branches,
    }


def _is_command(node: Node) -> bool:
    """Return True for a single command, which succeeds only if its program does."""
    inner = node.children[0] if node.type == "redirected_statement" else node
    return inner.type == "command"


def _may_be_in(folder: str | None, scope: Scope) -> None:
    """Record that the shell may still be in a folder, because a statement may not have run."""
    if scope.cwd != folder:
        scope.stayed |= {folder}


def _change(scope: Scope, name: str) -> None:
    """Mark a variable that an expansion changes as unknown. If `name` is empty, mark all."""
    if name:
        scope.forget((name,))
    else:
        scope.forget_all()


def _take_over_last(inner: Scope, scope: Scope) -> None:
    """Forget variables that the last command of a pipeline set.

    With `lastpipe`, and always in zsh and ksh, that command runs in the current shell.
    """
    scope.forget(set(inner.changed) & scope.variables.keys())


def _check_loop(names: frozenset[str] | None, scope: Scope, mark: int) -> None:
    """Raise for a loop that changed variables other than the `names` found in its text.

    In the second round, the analysis would use the values of the first round.
    """
    if names is not None and not names.issuperset(scope.changed[mark:]):
        raise NotAnalysable("its loop sets variables whose names are only known at run time")
