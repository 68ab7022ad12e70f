"""Analyses Python code by its syntax tree.

Names are resolved, and calls are looked up by name. Functions that are not listed are allowed. A
hole in the source counts as text that stays inside its string.
"""

import ast
import re
import warnings
from itertools import islice
from typing import Final

from safetyd.core.shell.code.code_builder import CodeBuilder
from safetyd.core.shell.code.python_calls import INSIDES, SHOWING
from safetyd.core.shell.code.python_effects import Arguments, PythonEffects, is_evaluated
from safetyd.core.shell.code.python_names import STANDS_FOR_HOLE, Names
from safetyd.core.shell.code.python_values import Dotted, Place, Value, choices
from safetyd.core.shell.reading import HOLE, Code, Effect

MAX_LETTERS: Final = 1 << 17  # characters of a source, including the sources in its strings
MAX_SOURCES: Final = 4  # sources nested in each other
MAX_LEVELS: Final = 100
MAX_TOKENS: Final = 20_000  # approximate number of tokens of a source
MAX_NODES: Final = 6_000

_SIGNS: Final = (ast.expr_context, ast.operator, ast.cmpop)  # nodes without children

_TOKEN: Final = re.compile(r"\w+|[^\s\w]")
_UNREADABLE: Final = "cannot be analysed: it is not valid Python"
_TOO_DEEP: Final = "cannot be analysed: it is nested too deeply"
_TOO_LONG: Final = "cannot be analysed: it is too long"
_TOO_MANY: Final = "cannot be analysed: a name has too many possible values"


def read_python(source: str) -> Code:
    builder = CodeBuilder()
    try:
        _Source(builder).read(source)
    except (RecursionError, MemoryError):
        builder.find(Effect.UNKNOWN, _TOO_DEEP)
    except _TooLong:
        builder.find(Effect.UNKNOWN, _TOO_LONG)
    return builder.code()


class _TooLong(Exception):
    """The source has too many nodes."""


class _Source:
    """Analyses a source, and the sources that it runs from its strings."""

    def __init__(self, builder: CodeBuilder) -> None:
        self._builder = builder
        self._known: set[str] = set()
        self._letters = 0
        self._nodes = 0
        self._level = 0
        self._outer: list[Names] = []  # names of the sources that run the current one

    def read(self, source: str) -> None:
        if source in self._known:
            return
        self._known.add(source)
        self._letters += len(source)
        if self._level > MAX_SOURCES or self._letters > MAX_LETTERS:
            self._builder.find(Effect.UNKNOWN, _TOO_DEEP)
            return
        try:
            nodes = _nodes(_tree(source), MAX_NODES - self._nodes)
        except (SyntaxError, ValueError):
            self._builder.find(Effect.UNKNOWN, _UNREADABLE)
            return
        self._level += 1
        self._nodes += len(nodes)
        names = Names(nodes)
        effects = PythonEffects(self._builder, self.read)
        if any(names.rebinds(outer) for outer in self._outer):
            effects.changes_names()
        self._outer.append(names)
        _Look(self._builder, names, effects).at(nodes)
        self._outer.pop()
        if names.overflows:
            self._builder.find(Effect.UNKNOWN, _TOO_MANY)
        self._level -= 1


class _Look:
    """Examines every node of a tree, parents first."""

    def __init__(self, builder: CodeBuilder, names: Names, effects: PythonEffects) -> None:
        self._builder = builder
        self._names = names
        self._effects = effects
        self._settled: set[int] = set()  # nodes handled with their parent
        self._in_classes: set[int] = set()

    def at(self, nodes: list[ast.AST]) -> None:
        for node in nodes:
            self._settle(node)
            match node:
                case ast.Call():
                    self._call(node)
                case ast.Attribute(attr=attr) if attr in INSIDES:
                    self._builder.find(
                        Effect.UNKNOWN,
                        "uses Python internals to access hidden objects",
                    )
                case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()):
                    self._reference(node)
                case ast.Subscript(value=owner, slice=index, ctx=ast.Load()):
                    self._item(owner, index)
                case (
                    ast.Attribute(value=owner, ctx=ast.Store() | ast.Del())
                    | ast.Subscript(value=owner, ctx=ast.Store() | ast.Del())
                ):
                    if any(map(is_evaluated, choices(self._names.of(owner)))):
                        self._effects.changes_names()
                case ast.FormattedValue(value=value):
                    self._effects.show(self._names.of(value))

    def _settle(self, node: ast.AST) -> None:
        """Mark child nodes that need no separate check, such as annotations."""
        match node:
            case ast.ClassDef(body=body):
                self._in_classes.update(map(id, body))
            case ast.Attribute(value=owner):
                self._settled.add(id(owner))
            case ast.Assign(targets=targets, value=value) if id(node) not in self._in_classes:
                if all(isinstance(one, ast.Name) and one.id[:2] != "__" for one in targets):
                    self._settled.add(id(value))
            case (
                ast.arg(annotation=ast.expr() as annotation) | ast.AnnAssign(annotation=annotation)
            ):
                self._settled.update(map(id, ast.walk(annotation)))
            case ast.FunctionDef(returns=ast.expr() as annotation):
                self._settled.update(map(id, ast.walk(annotation)))

    def _call(self, node: ast.Call) -> None:
        self._settled.add(id(node.func))
        callees = choices(self._names.of(node.func))
        if any(isinstance(callee, Dotted) and callee.name in SHOWING for callee in callees):
            self._settled.update(map(id, node.args))
        arguments = self._arguments(node)
        for callee in callees:
            self._called(callee, node.func, arguments)

    def _called(self, callee: Value, func: ast.expr, arguments: Arguments) -> None:
        match callee:
            case Dotted(name=name):
                self._effects.call(name, arguments)
            case Place(path=path) if isinstance(func, ast.Attribute):
                self._effects.method(path, func.attr, arguments)
            case None if isinstance(func, ast.Attribute):
                self._effects.method(HOLE, func.attr, arguments)

    def _arguments(self, node: ast.Call) -> Arguments:
        values: list[Value] = []
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                break
            values.append(self._names.of(arg))
        named = [(word.arg, self._names.of(word.value)) for word in node.keywords if word.arg]
        more = len(values) < len(node.args) or len(named) < len(node.keywords)
        return Arguments(tuple(values), tuple(named), more)

    def _reference(self, node: ast.expr) -> None:
        if id(node) in self._settled:
            return
        for name in self._names.dotted(node):
            if self._effects.knows(name):  # it may be called later, with unknown arguments
                self._effects.call(name, Arguments())

    def _item(self, owner: ast.expr, index: ast.expr) -> None:
        for name in self._names.dotted(owner):
            if name == "os.environ":
                self._effects.call("os.environ.get", Arguments((self._names.of(index),)))


def _tree(source: str) -> ast.Module:
    if STANDS_FOR_HOLE in source:
        raise ValueError("the source contains the placeholder for holes")
    if next(islice(_TOKEN.finditer(source), MAX_TOKENS, None), None) is not None:
        raise _TooLong
    with warnings.catch_warnings(action="ignore"):  # about invalid escapes
        return ast.parse(source.replace(HOLE, STANDS_FOR_HOLE))


def _nodes(tree: ast.AST, limit: int) -> list[ast.AST]:
    """Return all nodes, parents first. Raise `RecursionError` if they are nested too deeply."""
    nodes, level = [tree], [tree]
    for _ in range(MAX_LEVELS):
        children = (child for node in level for child in ast.iter_child_nodes(node))
        inner = (child for child in children if not isinstance(child, _SIGNS))
        level = list(islice(inner, limit))
        if len(nodes) + len(level) > limit:
            raise _TooLong
        if not level:
            return nodes
        nodes += level
    raise RecursionError
