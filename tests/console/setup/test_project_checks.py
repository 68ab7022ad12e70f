"""The checks that `safetyd init` proposes come from the files of the project."""

import json
import os
from pathlib import Path

import pytest

from safetyd.console.setup.project_checks import MAX_BYTES, project_checks
from tests.console.setup.dialogue import Dialogue

OWN: Path = Path(__file__).parents[3]

PYTHON = """
[project]
name = "web"
dependencies = ["httpx"]
optional-dependencies = { dev = ["pytest-cov", "mypy ~= 1.8"] }
[dependency-groups]
test = ["PyTest>=8", { include-group = "dev" }]
[tool.ruff.lint]
select = ["ALL"]
"""
POETRY = """
[tool.poetry.dependencies]
python = "^3.11"
[tool.poetry.group.dev.dependencies]
pytest = "^8"
black = "*"
[tool.tox]
"""
SCRIPTS = {
    "test": "vitest run",
    "test:unit": "vitest run unit",
    "lint": "eslint .",
    "lint:fix": "eslint --fix .",
    "type-check": "tsc --noEmit",
    "build": "vite build",
    "deploy": "wrangler deploy",
    "test:publish": "npm publish",
    "start": "vite",
    "test; rm -rf ~": "x",
}
MAKEFILE = """
VERSION := 1.0
test := unused
.PHONY: test lint deploy
test: build
\tpytest
lint typecheck:
\truff check
check:: lint
deploy:
\tkubectl apply -f .
unit-tests:
\tpytest tests/unit
"""


@pytest.mark.parametrize(
    ("files", "checks"),
    [
        ({"pyproject.toml": PYTHON}, ["pytest", "ruff check", "mypy"]),
        (
            {"pyproject.toml": POETRY, "poetry.lock": ""},
            [
                *("pytest", "poetry run pytest", "black --check", "poetry run black --check"),
                *("tox", "poetry run tox"),
            ],
        ),
        (
            {"package.json": json.dumps({"scripts": SCRIPTS})},
            [
                *("npm test", "npm run test:unit", "npm run lint", "npm run type-check"),
                "npm run build",
            ],
        ),
        (
            {"package.json": json.dumps({"scripts": {"test": "jest"}}), "yarn.lock": ""},
            ["yarn run test"],
        ),
        (
            {"package.json": '{"scripts": {"test": "echo Error: no test specified && exit"}}'},
            [],
        ),
        (
            {"Makefile": MAKEFILE},
            ["make test", "make lint", "make typecheck", "make check", "make unit-tests"],
        ),
        (
            {"Cargo.toml": "[package]"},
            ["cargo test", "cargo check", "cargo clippy", "cargo build"],
        ),
        ({"go.mod": "module web"}, ["go test", "go vet", "go build"]),
        ({}, []),
        (
            {
                "pyproject.toml": "[tool.pytest",
                "package.json": "[1",
                "Makefile": "\tx",
                "go.mod": "",
            },
            [],
        ),
        ({"pyproject.toml": "project = 3\ntool = []", "package.json": '{"scripts": []}'}, []),
    ],
)
def test_checks_come_from_the_files(
    files: dict[str, str], checks: list[str], tmp_path: Path
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)

    assert list(project_checks(tmp_path)) == checks


def test_this_project_is_understood() -> None:
    checks = project_checks(OWN)

    assert {"pytest", "ruff check", "mypy", "make test", "make check"} <= set(checks)
    assert not {check for check in checks if "deb" in check or "cluster" in check}


def test_unusual_files_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "Makefile")
    (tmp_path / "package.json").write_bytes(b"\xff")
    (tmp_path / "Cargo.toml").write_text("#" * (MAX_BYTES + 1))
    (tmp_path / "go.mod").mkdir()

    assert project_checks(tmp_path) == ()


@pytest.mark.usefixtures("measured")
@pytest.mark.parametrize(("answer", "allowed"), [("y", True), ("", False)])
def test_init_shows_the_checks_and_asks(answer: str, *, allowed: bool, tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("test:\n\ttouch executed\nlint:\n")
    config = tmp_path / "safetyd.toml"
    with Dialogue("init", str(config), cwd=tmp_path, SAFETYD_DATA_DIR=str(tmp_path)) as opened:
        opened.answer("strict", str(tmp_path), answer, "none")
        said = opened.end()

    assert said.returncode == 0
    assert "     make test, make lint\n" in opened.screen
    assert ('checks = ["make test", "make lint"]' in config.read_text()) is allowed
    assert not (tmp_path / "executed").exists()
