"""Requirements and their tests: `python -m tests.requirements` lists those without a test."""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.checkout import ROOT

TESTS: Final = ROOT / "tests"
LIST: Final = TESTS.parent / "docs" / "requirements.md"

_HEADING: Final = re.compile(r"## (.+)")
_LINE: Final = re.compile(r"- (S\d\.\d+|K\d) (.+)")


class Requirement(NamedTuple):
    number: str
    text: str
    done: bool

    def __str__(self) -> str:
        return f"{self.number:6} {self.text}"


class Mark(NamedTuple):
    number: str
    where: str


def requirements(path: Path = LIST) -> dict[str, Requirement]:
    """Return the document's requirements by number; a duplicate number is an error."""
    listed: dict[str, Requirement] = {}
    done = False
    for line in path.read_text().splitlines():
        if heading := _HEADING.fullmatch(line):
            done = heading[1] == "Done"
        elif found := _LINE.fullmatch(line):
            if found[1] in listed:
                raise ValueError(f"{path}: {found[1]} stands there twice")
            listed[found[1]] = Requirement(found[1], found[2], done)
    return listed


def marks(directory: Path = TESTS) -> list[Mark]:
    """Return every `req` mark on a test."""
    return [
        Mark(number, f"{path.relative_to(directory)}:{line}")
        for path in sorted(directory.rglob("test_*.py"))
        for number, line in _marks(ast.parse(path.read_text(), str(path)).body)
    ]


def missing(listed: Mapping[str, Requirement], found: list[Mark]) -> list[Requirement]:
    proved = {mark.number for mark in found}
    return [requirement for requirement in listed.values() if requirement.number not in proved]


def unknown(listed: Mapping[str, Requirement], found: list[Mark]) -> list[Mark]:
    return [mark for mark in found if mark.number not in listed]


def tell(listed: Mapping[str, Requirement], found: list[Mark]) -> int:
    """Print requirements without a test; return 1 if there are any."""
    without, strange = missing(listed, found), unknown(listed, found)
    late = [requirement for requirement in without if requirement.done]
    print("To come, without a test:")
    print(*(f"  {requirement}" for requirement in without if not requirement.done), sep="\n")
    print(f"{len(listed) - len(without)} of {len(listed)} requirements have a test.")
    for requirement in late:
        print(f"done, but no test proves it: {requirement}", file=sys.stderr)
    for mark in strange:
        print(f"{mark.where}: there is no requirement {mark.number}", file=sys.stderr)
    return 1 if late or strange else 0


def _marks(body: list[ast.stmt]) -> Iterator[tuple[str, int]]:
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if name.startswith("test_"):
                    yield from _calls(statement.decorator_list)
            case ast.ClassDef(name=name) if name.startswith("Test"):
                yield from _calls(statement.decorator_list)
                yield from _marks(statement.body)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if name == "pytestmark" or name.startswith("Test"):
                    yield from _calls([value])


def _calls(expressions: list[ast.expr]) -> Iterator[tuple[str, int]]:
    for node in (node for expression in expressions for node in ast.walk(expression)):
        match node:
            case ast.Call(func=ast.Attribute(attr="req"), args=numbers):
                yield from ((str(ast.literal_eval(number)), node.lineno) for number in numbers)


if __name__ == "__main__":
    sys.exit(tell(requirements(), marks()))
