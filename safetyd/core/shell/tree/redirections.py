"""Redirections, here-documents and here-strings: the input of a command and the files it opens."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from tree_sitter import Node

from safetyd.core.shell.reading import word_set
from safetyd.core.shell.scope import Redirect
from safetyd.core.shell.tree.syntax import NotAnalysable, check_apart, text_of
from safetyd.core.shell.words import KNOWN, Flow, Values, Word, body, expand, joined

_is_descriptor = re.compile(r"\d+\Z|\{\w+\}\Z").match
_WORDS: Final = word_set("""
    word string raw_string ansi_c_string concatenation number simple_expansion expansion
    command_substitution process_substitution
""")


class Opened(NamedTuple):
    """The result of a command's redirections."""

    stdin: Flow | None
    redirects: list[Redirect]
    words: list[Word]  # words of the command that follow a file name


def opened(nodes: Sequence[Node], values: Values, stdin: Flow | None) -> Opened:
    """Return the input, the opened files, and words of the command after a file name."""
    made, words = list[Redirect](), list[Word]()
    for node in nodes:
        if node.type == "herestring_redirect":
            word = joined(node.children[-1], values)
            stdin = Flow(word.text + "\n", word.origin)
        elif node.type == "heredoc_redirect":
            stdin = _heredoc(node, values)
            below = [child for child in node.children if child.type == "file_redirect"]
            stdin, more, further = opened(below, values, stdin)
            made += more
            words += further
            for child in node.children:
                if child.type in _WORDS:
                    words += expand(child, values)
        else:
            redirect, further = _file(node, values)
            made.append(redirect)
            words += further
    return Opened(stdin, made, words)


def _file(node: Node, values: Values) -> tuple[Redirect, list[Word]]:
    operator, descriptor, targets = "", "", list[Word]()
    check_apart(child for child in node.children if child.type in _WORDS)
    for child in node.children:
        if child.type == "file_descriptor":
            descriptor = text_of(child)
            if not _is_descriptor(descriptor):
                raise NotAnalysable("it has no space between a word and a redirection")
        elif child.is_named:
            found = expand(child, values)
            if not targets and len(found) > 1:
                raise NotAnalysable("one of its redirections names several files")
            targets += found
        else:
            operator = text_of(child)
    # Words after the file name belong to the command.
    target = targets[0] if targets else Word("", node.start_byte, node.end_byte)
    return Redirect(operator, descriptor, target), targets[1:]


def _heredoc(node: Node, values: Values) -> Flow:
    parts = {child.type: child for child in node.children}
    text = parts["heredoc_body"]
    quoted = any(mark in text_of(parts["heredoc_start"]) for mark in "'\"\\")
    return Flow(text_of(text), KNOWN) if quoted else body(text, values)
