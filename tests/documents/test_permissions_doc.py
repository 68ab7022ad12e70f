"""The table of who can do what: a row for everybody and everything, and the tests that it names."""

import ast
import re
from typing import Final, NamedTuple

import pytest

from tests.checkout import ROOT

HERE: Final = ROOT / "tests"
DOCUMENT: Final = HERE.parent / "docs" / "permissions.md"
WHO: Final = (
    *("anonymous agent", "agent with a key", "observer", "operator", "web page"),
    *("holder of a link", "other Unix user", "malicious project file"),
)
MAY: Final = ("speak", "read", "block others", "fill up", "approve")

_row = re.compile(r"\| ?(.*?) ?\| (.+?) \| (.+?) \| (.+?) \|").fullmatch
_test = re.compile(r"`([\w/]+\.py)::(test_\w+)`").findall


class Cell(NamedTuple):
    who: str
    may: str
    holds: str
    tests: list[tuple[str, str]]


def cells() -> list[Cell]:
    rows = [
        row for line in DOCUMENT.read_text().splitlines() if (row := _row(line)) and row[2] in MAY
    ]
    found: list[Cell] = []
    for row in rows:
        who = row[1] or found[-1].who
        found.append(Cell(who, row[2], row[3], _test(row[4])))
    return found


def test_everybody_has_a_row_for_everything() -> None:
    assert [(cell.who, cell.may) for cell in cells()] == [(who, may) for who in WHO for may in MAY]


@pytest.mark.parametrize("cell", cells(), ids=lambda cell: f"{cell.who}: {cell.may}")
def test_what_holds_is_shown_by_tests_that_exist(cell: Cell) -> None:
    assert cell.holds
    assert cell.tests
    for path, name in cell.tests:
        tree = ast.parse((HERE / path).read_text())
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        assert name in {node.name for node in tree.body if isinstance(node, functions)}, path
