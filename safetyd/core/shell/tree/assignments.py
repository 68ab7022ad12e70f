"""Assignments, and the variables that a part of a script may change."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from tree_sitter import Node

from safetyd.core.shell.reading import HOLE
from safetyd.core.shell.scope import POSITIONAL, Scope
from safetyd.core.shell.tree.syntax import NotAnalysable, text_of
from safetyd.core.shell.words import (
    COMMAND,
    UNKNOWN_TEXT,
    Values,
    Word,
    expand,
    joined,
    least_trusted,
    run_inside,
)

# Builtins that set the variables they name, and builtins that may set any variable.
_READING: Final = frozenset({"read", "mapfile", "readarray", "getopts", "unset", "let"})
_CHANGING: Final = frozenset({"eval", "source", ".", "command", "builtin"})
_names_in = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").findall


class Assigned:
    """Finds the variables that parts of a tree may change, and caches them by part."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Node, frozenset[str]]] = {}

    def forget(self, node: Node, scope: Scope) -> None:
        """Mark the variables that a node may change as unknown."""
        names = self._names(node)
        if not names.isdisjoint(_CHANGING) or not scope.functions.keys().isdisjoint(names):
            names |= scope.variables.keys()
        for name in names:
            scope.variables[name] = UNKNOWN_TEXT

    def _names(self, node: Node) -> frozenset[str]:
        """Return the variables that a node may change, and the programs that it runs."""
        known = self._known.get(node.id)
        if known is None:
            names = set(_names(node))
            for child in node.children:
                if child.child_count:
                    names |= self._names(child)
            # Store the node, because its id is its address in memory.
            known = self._known[node.id] = (node, frozenset(names))
        return known[1]


def assignment(node: Node, values: Values) -> tuple[str, Word]:
    """Return a variable and the word that is assigned to it."""
    target, value = node.children[0], node.children[-1]
    if target.type == "subscript":
        run_inside(target, values)
    name = text_of(target).partition("[")[0]
    if not name.isidentifier():
        raise NotAnalysable("it assigns a value to something that is not a variable")
    adds = any(child.type == "+=" for child in node.children)
    if value.type == "array" and not adds:
        words = [w for child in value.children if child.is_named for w in expand(child, values)]
        text = " ".join(word.text for word in words)
        origin = least_trusted([word.origin for word in words])
        return name, Word(text, node.start_byte, node.end_byte, origin, quoted=True)
    if value.type in {"=", "+="}:
        return name, Word("", node.start_byte, node.end_byte)
    word = joined(value, values)
    if adds or target.type == "subscript":
        word = word._replace(text=HOLE, origin=COMMAND)
    return name, word


def forget_read(program: str, words: Sequence[Word], scope: Scope) -> None:
    """Mark the variables that a builtin sets as unknown."""
    if program in _READING:
        names = {name for word in words for name in _names_in(word.text)}
    elif program in {"shift", "set"}:
        names = set(POSITIONAL)
    elif program in {"source", "."}:
        names = set(scope.variables)
    else:
        return
    for name in names:
        scope.variables[name] = UNKNOWN_TEXT


def _names(node: Node) -> Iterator[str]:
    """Yield the variables that a node itself may change, and the program that it runs."""
    if node.type == "variable_assignment":
        yield text_of(node.children[0]).partition("[")[0]
    elif node.type == "command":
        words = text_of(node).split() or [""]  # only Unicode blanks
        yield words[0]
        if words[0] in _READING:
            yield from _names_in(" ".join(words[1:]))
        if words[0] == "printf" and words[1:2] == ["-v"]:
            yield "eval"
    elif node.type not in {"simple_expansion", "expansion"}:
        for child in node.children:
            if child.type in {"variable_name", "subscript"}:
                yield text_of(child).partition("[")[0]
