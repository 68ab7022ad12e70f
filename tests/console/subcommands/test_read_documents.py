"""`safetyd docs`, from a checkout; tests/documents/test_wheel.py has it from a wheel."""

import json

import pytest

from tests.checkout import ROOT
from tests.console.console_rig import at_a_terminal, here


def test_documents_are_listed_with_a_line_each_and_large_folders_in_one():
    said = here("docs")

    lines = said.stdout.splitlines()
    assert said.returncode == 0
    assert [line.split()[0] for line in lines[:3]] == [
        *("README.md", "CHANGELOG.md", "docs/README.md"),
    ]
    assert any(line.endswith("see `safetyd docs schemas`.") for line in lines)
    assert not any("docs/schemas/" in line for line in lines)


def test_a_folder_is_listed():
    lines = here("docs", "decisions").stdout.splitlines()

    assert len(lines) == len(list((ROOT / "docs" / "decisions").iterdir()))
    assert lines[0].split(maxsplit=1)[1] == "Two appends may be in flight"


def test_a_file_that_is_not_shown_on_a_terminal_comes_as_it_is():
    said = here("docs", "config/safetyd.toml")

    assert said.stdout == (ROOT / "config" / "safetyd.toml").read_text()


def test_on_a_terminal_a_file_is_shown_by_the_pager():
    said = at_a_terminal("docs", "protocol", PAGER="head -n 1", TERM="xterm")

    assert said.splitlines() == ["# Protocol"]


def test_path_says_where_files_are():
    one = here("docs", "guards", "--path").stdout
    many = here("docs", "schemas", "--path").stdout.splitlines()

    assert one == f"{ROOT / 'docs' / 'guards.md'}\n"
    assert str(ROOT / "docs" / "schemas" / "claim.json") in many


def test_programs_get_name_title_and_path():
    answer = json.loads(here("docs", "guards", "--json").stdout)

    title, path = "What each guard decides", str(ROOT / "docs" / "guards.md")
    assert answer == {
        "ok": True,
        "files": [{"name": "docs/guards.md", "title": title, "path": path}],
    }
    assert json.loads(here("docs", "zzz", "--json").stdout)["code"] == "not_found"


@pytest.mark.parametrize(
    ("name", "hint"),
    [("gaurds", "Did you mean docs/guards.md?"), ("zzz", "Run `safetyd docs` for a list")],
)
def test_a_name_that_is_not_known_is_answered_with_one_that_is(name: str, hint: str):
    said = here("docs", name)

    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr == f"safetyd: no document {name!r}. {hint}\n"


def test_a_copy_without_its_documents_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr("safetyd.console.shipped_files._PACKAGE", tmp_path / "safetyd")

    assert "this installation of safetyd is incomplete" in here("docs").stderr
