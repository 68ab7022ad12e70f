"""Everything that architecture.md, CONTRIBUTING.md and permissions.md name exists."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from safetyd.notify.channel_config import CHANNELS
from tests.checkout import ROOT

SAFETYD: Final = ROOT / "safetyd"
DOCUMENTS: Final = ("docs/architecture.md", "CONTRIBUTING.md")
# Where a path of these documents may begin.
BEGINS: Final = (
    ROOT,
    SAFETYD,
    SAFETYD / "core",
    SAFETYD / "core/guards",
    SAFETYD / "console",
    SAFETYD / "notify",
)
ROOMS: Final = {
    *("adapters", "agents", "bus", "cards", "client", "console", "core", "daemon", "extras"),
    *("hosts", "journal", "monitoring", "notify", "operators", "rehearsal", "web"),
}

# `init` asks for settings of two channels; a helper shows messages on a person's desktop.
_SETUP: Final = {
    f"console/setup/{name}.py" for name in ("config_text", "setup_questions", "write_config")
}
_HELPER: Final = "console/subcommands/desktop_helper.py"
ASKS_FOR_IT: Final = {"email": _SETUP, "desktop": {*_SETUP, _HELPER}}

EVERYBODY: Final = (
    *("anonymous agent", "agent with a key", "observer", "operator", "web page"),
    *("holder of a link", "owner of a relay", "other Unix user", "malicious project file"),
)
ACTIONS: Final = ("speak", "read", "block others", "fill up", "approve")

_SPAN: Final = re.compile(r"`([^`\n]+)`")
_PLACE: Final = re.compile(r"((?:[\w.-]+/)*[\w-]+\.(?:py|md|toml|txt)|(?:[\w-]+/)+)(?:: ([\w.]+))?")
_CLASS: Final = re.compile(r"(?:[A-Z][a-z]+){1,}")

MODULES: Final = sorted(SAFETYD.rglob("*.py"))
PACKAGES: Final = sorted(path.parent for path in SAFETYD.rglob("__init__.py"))


def named() -> Iterator[tuple[str, str, str]]:
    """Yield the document, path and symbol of everything that is named as a place."""
    for document in DOCUMENTS:
        for span in _SPAN.findall((ROOT / document).read_text()):
            if found := _PLACE.fullmatch(span):
                yield document, found[1], found[2] or ""


def classes_named() -> Iterator[tuple[str, str]]:
    for document in DOCUMENTS:
        for span in _SPAN.findall((ROOT / document).read_text()):
            if _CLASS.fullmatch(span):
                yield document, span


@cache
def definitions(path: Path) -> dict[str, ast.AST]:
    """Return what a module defines, methods as Class.method."""
    found: dict[str, ast.AST] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{method.name}": method for method in methods(node)}
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = node
    return found


def methods(node: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]


@pytest.mark.parametrize(("document", "path", "symbol"), sorted(set(named())))
def test_every_named_path_exists(document: str, path: str, symbol: str) -> None:
    there = [begin / path for begin in BEGINS if (begin / path).exists()]

    assert there, f"{document} names {path}"
    if symbol:
        assert symbol in definitions(there[0]), f"{document} names {symbol} of {path}"


@pytest.mark.parametrize(("document", "name"), sorted(set(classes_named())))
def test_every_named_class_exists(document: str, name: str) -> None:
    assert any(name in definitions(path) for path in MODULES), f"{document} names {name}"


def test_the_document_lists_all_packages() -> None:
    text = (ROOT / "docs/architecture.md").read_text()

    assert {path.name for path in SAFETYD.iterdir() if (path / "__init__.py").exists()} == ROOMS
    assert {path.stem for path in SAFETYD.glob("[!_]*.py")} == {
        *("clock", "hook", "host", "html_templates")
    }
    assert all(f"`{room}/`" in text for room in ROOMS)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_package_has_a_docstring(package: Path) -> None:
    said = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""

    if package != SAFETYD:
        assert len(said.splitlines()) >= 3, "what it is for, and what others may import"


def test_no_two_modules_have_the_same_name() -> None:
    # Each folder of a channel has a `channel.py`, by which it is found.
    names = Counter(path.stem for path in MODULES if not path.stem.startswith("__"))
    del names["channel"]

    assert [name for name, count in names.items() if count > 1] == []


def keeps_the_state(path: Path) -> bool:
    """Return True if a class of a module is made with the engine or its state."""
    return any(
        isinstance(node, ast.FunctionDef)
        and node.name == "__init__"
        and any(
            ast.unparse(arg.annotation or arg) in {"Engine", "EngineState"}
            for arg in (*node.args.args, *node.args.kwonlyargs)
        )
        for node in ast.walk(ast.parse(path.read_text()))
    )


def test_only_the_commit_loop_stores_the_engine() -> None:
    outside = [path for path in MODULES if SAFETYD / "core" not in path.parents]

    keep = [path.relative_to(SAFETYD).as_posix() for path in outside if keeps_the_state(path)]

    # The offers of one answer live no longer than it.
    assert keep == ["journal/commit_loop.py", "operators/views/grant_offer.py"]


@pytest.mark.parametrize("channel", CHANNELS)
def test_nothing_outside_its_folder_imports_a_channel(channel: str) -> None:
    folder = SAFETYD / "notify" / channel
    others = [path for path in MODULES if folder not in path.parents]
    found = {
        str(path.relative_to(SAFETYD)) for path in others if f"notify.{channel}" in path.read_text()
    }

    assert found <= ASKS_FOR_IT.get(channel, set())


# -- the tests that docs/permissions.md names ------------------------------------------------------


def permissions() -> Iterator[tuple[str, str, list[str]]]:
    """Yield who, the action, and the tests that prove a row."""
    who = ""
    for line in (ROOT / "docs/permissions.md").read_text().splitlines():
        row = re.fullmatch(r"\| ?(.*?) ?\| (.+?) \| .+? \| (.+?) \|", line)
        if row and row[2] in ACTIONS:
            who = row[1] or who
            yield who, row[2], re.findall(r"`([\w/]+\.py::test_\w+)`", row[3])


def test_permissions_have_a_row_for_everybody_and_every_action() -> None:
    rows = [(who, action) for who, action, _ in permissions()]

    assert rows == [(who, action) for who in EVERYBODY for action in ACTIONS]


@pytest.mark.parametrize(("who", "action", "tests"), list(permissions()))
def test_every_permission_names_tests_that_exist(who: str, action: str, tests: list[str]) -> None:
    assert tests, f"{who}: {action}"
    for test in tests:
        path, _, name = test.partition("::")
        assert name in definitions(ROOT / "tests" / path), f"docs/permissions.md names {test}"
