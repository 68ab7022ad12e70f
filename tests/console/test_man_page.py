"""The manual page, read as troff reads it: requests at the beginning of lines, and text."""

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress

import click
import pytest

from safetyd.console.cli import commands
from safetyd.console.command_table import COMMANDS, GROUPS
from safetyd.console.man_page import SETTINGS, page, settings_page
from tests.checkout import ROOT
from tests.conftest import environment
from tests.console.console_rig import here

TODAY = "2026-01-31"
REQUESTS = {".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".nf", ".fi"}
ESCAPES = re.compile(r"\\(?!e|-|&|\(dq|\[u[0-9A-F]{4}\]|fB|fR)")


@pytest.mark.parametrize(
    ("name", "title"), [("safetyd", "SAFETYD 1"), (SETTINGS, "SAFETYD.TOML 5")]
)
def test_pages_have_only_requests_that_every_man_knows(name: str, title: str):
    lines = here("man", name).stdout.splitlines()

    asked = {line.split(" ")[0] for line in lines if line.startswith((".", "'"))}
    assert asked <= REQUESTS
    assert lines[0].startswith(f".TH {title} ")
    assert not any(ESCAPES.search(line) for line in lines)
    assert lines.count(".nf") == lines.count(".fi")
    assert all(line.isascii() and line.isprintable() for line in lines)


@pytest.mark.parametrize("text", [page(commands, TODAY), settings_page(TODAY)])
def test_mandoc_has_no_complaint(text: str):
    lint = ["mandoc", "-Tlint", "-Wwarning"]
    done = subprocess.run(lint, input=text, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_page_of_the_configuration_has_every_section_of_the_file():
    text = settings_page()
    sections = re.findall(
        r"^#? ?\[([\w.-]+)\]", (ROOT / "config/safetyd.toml").read_text(), re.MULTILINE
    )

    assert len(sections) > 20
    assert [one for one in sections if f"[{one}]".replace("-", "\\-") not in text] == []


def at_a_terminal(path: str) -> str:
    """Return what `safetyd man` prints on a terminal, with this PATH."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "safetyd", "man"], stdout=theirs, env=environment(PATH=path)
    )
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # the end of a terminal
        while chunk := os.read(ours, 4096):
            shown += chunk
    os.close(ours)
    process.wait()
    return shown.decode()


def test_a_terminal_shows_the_page_with_man_if_there_is_one(tmp_path):
    program = tmp_path / "man"
    program.write_text('#!/bin/sh\nread first\necho "$@, $first"\n')
    program.chmod(0o755)

    assert at_a_terminal(str(tmp_path)).startswith("-l -, .TH SAFETYD 1 ")
    program.unlink()
    assert at_a_terminal(str(tmp_path)).startswith(".TH SAFETYD 1 ")


def test_every_tag_has_a_name_and_a_text():
    lines = here("man").stdout.splitlines()

    for number in (number for number, line in enumerate(lines) if line == ".TP"):
        assert lines[number + 1].startswith("\\fB")
        assert lines[number + 2]
        assert not lines[number + 2].startswith(".")


def test_sections_are_those_of_a_manual_and_of_the_help():
    lines = here("man").stdout.splitlines()

    sections = [line.removeprefix(".SH ").strip('"') for line in lines if line.startswith(".SH")]
    groups = [title.upper() for title in GROUPS]
    assert sections == [
        *("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"),
        *groups,
        *("ENVIRONMENT", "EXIT STATUS", "SEE ALSO"),
    ]


def test_every_command_and_every_option_is_there():
    text = page(commands).replace("\\-", "-")

    for name in COMMANDS:
        assert f'.SS "safetyd {name} ' in text
    for below in ("grant add", "agent add", "notify test", "budgets raise"):
        assert f'.SS "safetyd {below} ' in text
    assert "\\fB--cooldown" not in text
    assert "\\fB--force\\fR\nWith exit: " in text


def test_words_that_troff_would_obey_are_only_words():
    @click.command()
    def odd() -> None:
        """A line.

        .SH is no section, nor is
        'br a break; a\\b "quoted".
        """

    group = click.Group("odd", {"run": odd}, help="Odd.")

    text = page(group)

    assert "\\&.SH is no section" in text
    assert "\\&'br a break; a\\eb \\(dqquoted\\(dq." in text


def test_page_is_written_where_it_is_wanted(tmp_path):
    said = here("man", "--directory", str(tmp_path / "man1"))

    assert (said.returncode, said.stdout) == (0, "")
    assert (tmp_path / "man1/safetyd.1").read_text() == page(commands)


def test_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()

    said = here("man", "--directory", str(tmp_path / "file"))

    assert said.returncode == 1
    assert str(tmp_path / "file" / "safetyd.1") in said.stderr
