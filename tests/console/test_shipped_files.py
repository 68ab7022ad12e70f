"""What comes with safetyd is found by its name, and what messages name is there."""

import re
from pathlib import Path

import pytest

from safetyd.console.shipped_files import ShippedFile, find, shipped_files
from tests.checkout import ROOT

FILES = shipped_files()
# Where a document is named to people; the two that know where they are name files themselves.
TELLING = [
    *(
        path
        for path in (ROOT / "safetyd").rglob("*.py")
        if path.name not in {"shipped_files.py", "read_documents.py"}
    ),
    *(path for path in (ROOT / "config").rglob("*") if path.is_file()),
    *(ROOT / "systemd").rglob("*.service"),
]


def named(found: object) -> list[str]:
    assert isinstance(found, (list, tuple))
    return [file.name for file in found]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("guards", "docs/guards.md"),
        ("guards.md", "docs/guards.md"),
        ("docs/guards.md", "docs/guards.md"),
        ("README", "README.md"),
        ("asyncapi.yaml", "docs/asyncapi.yaml"),
        ("schemas/claim.json", "docs/schemas/claim.json"),
        ("config/production.toml", "config/production.toml"),
        ("systemd/user/safetyd-desktop.service", "systemd/user/safetyd-desktop.service"),
    ],
)
def test_a_file_is_found_by_its_name_and_shorter_ones(name: str, file: str) -> None:
    assert named(find(name, FILES)) == [file]


@pytest.mark.parametrize("name", ["schemas", "docs/schemas/"])
def test_the_name_of_a_folder_finds_what_is_in_it(name: str) -> None:
    found = named(find(name, FILES))

    assert len(found) == len(list((ROOT / "docs" / "schemas").iterdir()))
    assert all(one.startswith("docs/schemas/") for one in found)


@pytest.mark.parametrize("name", ["", "/", "../pyproject.toml", "docs/generate.py", "guard"])
def test_nothing_else_is_found(name: str) -> None:
    assert named(find(name, FILES)) == []


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# Telling people\n\nWhat needs a person.\n", "Telling people"),
        ("# For your own machine, while you\n# write. What differs:\n", "For your own machine, "),
        ("a: b\n", ""),
    ],
)
def test_a_title_is_the_first_sentence_at_the_top(tmp_path: Path, text: str, title: str) -> None:
    (tmp_path / "x").write_text(text)

    said = ShippedFile("x", tmp_path / "x").title

    assert said.startswith(title)
    assert ". " not in said


def test_every_file_but_schemas_says_what_it_is() -> None:
    assert [file.name for file in FILES if not file.title and file.path.suffix != ".json"] == []


def test_every_document_that_is_named_is_there() -> None:
    told = {
        name
        for path in TELLING
        for name in re.findall(r"`safetyd docs ([a-z][\w./-]*)`", path.read_text())
    }

    assert {"notifications", "operations"} <= told
    assert [name for name in told if not find(name, FILES)] == []


def test_nobody_is_sent_to_a_file_of_the_source() -> None:
    source = re.compile(
        r"(?<!safetyd docs )(?<![\w/~.])(docs|config|systemd)/\w+\.(md|toml|yml|yaml|service)\b"
    )
    found = {
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in TELLING
        for match in source.finditer(path.read_text())
    }

    assert found == {"config/alerts_test.yml: config/alerts_test.yml"}
