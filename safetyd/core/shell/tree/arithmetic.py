"""`((...))` as a command: arithmetic in bash, nested subshells in other shells."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from tree_sitter import Node

from safetyd.core.shell.tree.syntax import text_of
from safetyd.core.shell.words import Flow

_substitutions = re.compile(r"\$\([^()]*\)|`[^`]*`").sub
_between_commands = re.compile(r"[;&|(){}!\n]+").split
# A name of several letters, alone or before a word that looks like an option or a path.
_command = re.compile(r"\s*(\S{2,})(?:\s*\Z|\s+[-/~*+%<>?.][^\s=<>*&|])").match
_quotes = re.compile(r"""["'\\]""").sub
_variable = re.compile(r"\$\{?(\w+)\}?").sub
_PATHS: Final = ("/", "./", "../", "~")


def as_commands(node: Node, variables: Mapping[str, Flow], knows: Callable[[str], bool]) -> str:
    """Return the content of `((...))` if it may be commands, or an empty string.

    `((rm -rf x))` is arithmetic in bash, and a subshell in a subshell in dash.
    """
    inside = text_of(node)[2:-2]
    plain = _variable(lambda found: _value(found, variables), _substitutions("0", inside))
    for part in _between_commands(_quotes("", plain)):
        found = _command(part)
        if found and (found[1].startswith(_PATHS) or knows(found[1])):
            return inside
    return ""


def _value(found: re.Match[str], variables: Mapping[str, Flow]) -> str:
    known = variables.get(found[1])
    return "0" if known is None or known.text is None else known.text
