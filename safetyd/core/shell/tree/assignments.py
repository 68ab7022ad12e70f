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
    KNOWN,
    Flow,
    Values,
    Word,
    expand,
    joined,
    least_trusted,
    run_inside,
    sets_by_default,
)

# Builtins that set the variables they name, and builtins that may set any variable.
_READING: Final = frozenset({"read", "mapfile", "readarray", "getopts", "unset", "let", "wait"})
_CHANGING: Final = frozenset({"eval", "source", ".", "command", "builtin"})
DECLARING: Final = frozenset({"export", "declare", "local", "readonly", "typeset"})
_USUAL_SEPARATORS: Final = Flow(" \t\n", KNOWN)
_DECLARATIONS: Final = frozenset({"declaration_command", "unset_command"})
# An option that is followed by a value: the next word is not the name of a variable.
_has_value = re.compile(r"-[a-zA-Z]*[pdtnNuiOsCc]").fullmatch
_removed_quotes = re.compile(r"""[\\'"]""").sub
_names_in = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").findall


class Assigned:
    """Finds the variables that parts of a tree may change, and caches them by part."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Node, frozenset[str]]] = {}

    def forget(self, node: Node, scope: Scope) -> frozenset[str] | None:
        """Mark the variables that a node may change as unknown, and return their names.

        Return None if the node may change any variable.
        """
        names = self._names(node)
        scope.forget(names)
        if names.isdisjoint(_CHANGING) and scope.functions.keys().isdisjoint(names):
            return names
        scope.forget_all()
        return None

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
    if program in {"source", "."}:
        scope.forget_all()
    elif program in {"shift", "set"}:
        scope.forget(POSITIONAL)
    elif program in _READING:
        _forget_named(program, [word.text for word in words], scope)


def _forget_named(program: str, words: Sequence[str], scope: Scope) -> None:
    if program == "wait" and not any(word.startswith("-") for word in words):
        return
    if program == "getopts":
        words = words[1:2]
    before = ""
    for word in words:
        if HOLE in word and not (_has_value(before) and program != "unset"):
            scope.forget_all()
        scope.forget(_names_in(word))
        before = word
    if program == "unset" and "IFS" in words:
        scope.set("IFS", _USUAL_SEPARATORS)


def _names(node: Node) -> Iterator[str]:
    """Yield the variables that a node itself may change, and the program that it runs."""
    if node.type == "variable_assignment":
        yield text_of(node.children[0]).partition("[")[0]
    elif node.type == "command":
        words = [child for child in node.children if child.type != "variable_assignment"]
        yield from _named([_removed_quotes("", text_of(word)) for word in words])
    elif node.type in _DECLARATIONS:
        words = [child for child in node.children if child.type != "variable_assignment"]
        yield from _named([_removed_quotes("", text_of(word)) for word in words])
        yield from _names_of_children(node)
    elif node.type == "expansion":
        if setting := sets_by_default(text_of(node)):
            yield "eval" if setting[1] else setting[2]
    elif node.type != "simple_expansion":
        yield from _names_of_children(node)


def _named(words: Sequence[str]) -> Iterator[str]:
    """Yield a program and the variables in its words that it may change."""
    program, *given = words or [""]
    yield program
    if program in _READING or program in DECLARING:
        yield from _names_in(" ".join(given))
        if program in DECLARING and any(set("$`{") & set(word) for word in given):
            yield "eval"
    elif program == "printf" and given and given[0].startswith(("-v", "$", "`")):
        yield "eval"


def _names_of_children(node: Node) -> Iterator[str]:
    for child in node.children:
        if child.type in {"variable_name", "subscript"}:
            yield text_of(child).partition("[")[0]
