"""Finds the tests, linters and builds of a project in its files. Nothing is executed."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, cast

MAX_BYTES: Final = 1024 * 1024  # larger files are not read
MAX_CHECKS: Final = 20

# Tables of pyproject.toml, and the check that each of them suggests.
_TOOLS: Final = {
    "pytest": "pytest",
    "ruff": "ruff check",
    "mypy": "mypy",
    "pyright": "pyright",
    "black": "black --check",
    "tox": "tox",
}
# Lock files of Python, and the words before a program.
_PYTHON_RUNNERS: Final = {"uv.lock": "uv run", "poetry.lock": "poetry run", "pdm.lock": "pdm run"}
# Lock files of JavaScript, and the words before the name of a script.
_SCRIPT_RUNNERS: Final = {
    "pnpm-lock.yaml": "pnpm run",
    "yarn.lock": "yarn run",
    "bun.lock": "bun run",
    "bun.lockb": "bun run",
}
_CHECKING: Final = (
    r"(?:unit[-_:]?)?tests?|check|lint|build|type-?check|types|fmt[-_:]check|format[-_:]check"
)
_is_script = re.compile(rf"(?:{_CHECKING})(?::(?:unit|all|types?|ci|js|ts|css))?").fullmatch
_is_target = re.compile(_CHECKING).fullmatch
_rules = re.compile(r"^(\w[\w. -]*?)[ \t]*::?(?!=)", re.MULTILINE).findall
_begins_requirement = re.compile(r"[\w.-]+").match
_NO_TEST: Final = "no test specified"  # the script that `npm init` writes


def project_checks(root: Path) -> tuple[str, ...]:
    """Return the commands that test, lint or build a project."""
    found = (*_of_python(root), *_of_scripts(root), *_of_make(root), *_of_others(root))
    return tuple(dict.fromkeys(found))[:MAX_CHECKS]


def package_name(root: Path) -> str:
    """Return the name of a Python project, or an empty string."""
    return str(_table(_python_file(root), "project").get("name", ""))


def _python_file(root: Path) -> Mapping[str, object]:
    try:
        return tomllib.loads(_text(root / "pyproject.toml"))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _of_python(root: Path) -> Iterator[str]:
    file = _python_file(root)
    required = {_name(each) for each in _requirements(file)}
    named = [tool for tool in _TOOLS if tool in required or tool in _table(file, "tool")]
    runner = next((words for lock, words in _PYTHON_RUNNERS.items() if (root / lock).exists()), "")
    for tool in named:
        yield _TOOLS[tool]
        if runner:
            yield f"{runner} {_TOOLS[tool]}"


def _requirements(file: Mapping[str, object]) -> Iterator[object]:
    """Yield the requirements in every table that may list them."""
    project, poetry = _table(file, "project"), _table(_table(file, "tool"), "poetry")
    groups = (
        *_table(project, "optional-dependencies").values(),
        *_table(file, "dependency-groups").values(),
        project.get("dependencies"),
        *(_table(poetry, name) for name in ("dependencies", "dev-dependencies")),
        *(_table(_table(poetry, "group"), name) for name in _table(poetry, "group")),
    )
    for group in groups:
        yield from _table(group, "dependencies")
        yield from group if isinstance(group, list | dict) else ()


def _of_scripts(root: Path) -> Iterator[str]:
    try:
        file = json.loads(_text(root / "package.json") or "{}")
    except (ValueError, RecursionError):
        return
    runners = (words for lock, words in _SCRIPT_RUNNERS.items() if (root / lock).exists())
    runner = next(runners, "npm run")
    for name, script in _table(file, "scripts").items():
        if _is_script(name) and _NO_TEST not in str(script):
            yield "npm test" if (runner, name) == ("npm run", "test") else f"{runner} {name}"


def _of_make(root: Path) -> Iterator[str]:
    text = next(
        filter(None, (_text(root / name) for name in ("GNUmakefile", "makefile", "Makefile"))), ""
    )
    for targets in _rules(text):
        yield from (f"make {target}" for target in targets.split() if _is_target(target))


def _of_others(root: Path) -> Iterator[str]:
    if _text(root / "Cargo.toml"):
        yield from ("cargo test", "cargo check", "cargo clippy", "cargo build")
    if _text(root / "go.mod"):
        yield from ("go test", "go vet", "go build")


def _table(file: object, name: str) -> Mapping[str, object]:
    """Return a table of a file, or an empty one if it has no such table."""
    found = file.get(name) if isinstance(file, dict) else None
    return cast("Mapping[str, object]", found) if isinstance(found, dict) else {}


def _name(requirement: object) -> str:
    """Return the package of a requirement: `pytest` of `pytest>=8`."""
    found = _begins_requirement(str(requirement))
    return found[0].lower() if found else ""


def _text(path: Path) -> str:
    """Return the content of a file, or an empty string if it is missing or unusual."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return ""
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
