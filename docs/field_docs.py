"""Descriptions of fields: comments in the source of their structs, else docs/field_glossary.toml.

The comment at the end of a field's line describes it, else the comment lines directly above it.
"""

import ast
import inspect
import sys
import tokenize
import tomllib
from collections.abc import Mapping
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Final

OURS: Final = ("safetyd.", "docs.")


def described(title: str, kind: type | None, field: str) -> str:
    """Return the description of a field, or an empty text."""
    said = field_docs(kind).get(field, "") if kind else ""
    return said or _glossary().get(f"{title}.{field}") or _glossary().get(field, "")


@cache
def field_docs(kind: type) -> Mapping[str, str]:
    """Return the comments on the fields of a struct or typed dictionary."""
    docs: dict[str, str] = {}
    for base in reversed(_bases(kind)):
        docs |= _of_class(base.__module__).get(base.__qualname__, {})
    return docs


@cache
def _glossary() -> Mapping[str, str]:
    return tomllib.loads(Path(__file__).with_name("field_glossary.toml").read_text())


def _bases(kind: type) -> tuple[type, ...]:
    return tuple(base for base in kind.__mro__ if base.__module__.startswith(OURS))


@cache
def _of_class(module: str) -> Mapping[str, Mapping[str, str]]:
    source = inspect.getsource(sys.modules[module])
    beside, above = _comments(source)
    return {
        node.name: {
            field.target.id: text
            for field in node.body
            if isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and (text := beside.get(field.end_lineno or 0) or _lines(above, field.lineno))
        }
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef)
    }


def _comments(source: str) -> tuple[dict[int, str], dict[int, str]]:
    """Return comments by line: those after code, and those on their own line."""
    beside: dict[int, str] = {}
    above: dict[int, str] = {}
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type == tokenize.COMMENT and "noqa" not in token.string:
            alone = not token.line[: token.start[1]].strip()
            (above if alone else beside)[token.start[0]] = token.string.lstrip("# ").strip()
    return beside, above


def _lines(above: Mapping[int, str], line: int) -> str:
    """Return the comment lines that end directly above a line."""
    lines: list[str] = []
    while text := above.get(line - 1 - len(lines)):
        lines.insert(0, text)
    return " ".join(lines)
