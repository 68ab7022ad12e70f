"""Deletions are judged by the location of a path, and by whether a build recreates it."""

import pytest

from safetyd.core.shell.places import Project
from tests.core.shell.verdicts import verdict

BUILD = Project("/home/u/build/app", "/home/u/build/app")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("rm -rf src", "ask"),
        ("rm -rf ~/build/app/src", "ask"),
        ("rm -rf /home/u/build/app/src", "ask"),
        ("rm -rf /home/u/build/app", "ask"),
        ("rm -rf src/../.", "ask"),
        ("rm -rf dist", "pass"),
        ("rm -rf ~/build/app/dist", "pass"),
        ("rm -rf /home/u/build/app/node_modules", "pass"),
        ("rm -rf /home/u/build/other", "ask"),
        ("rm src/a.py", "pass"),
        ('rm -rf "$(pwd)/dist"', "pass"),
        ('rm -rf "$(pwd)"', "ask"),
        ('cd "$X"; rm -rf "$(pwd)"', "ask"),
    ],
)
def test_a_folder_named_build_above_the_root_does_not_make_files_deletable(
    command: str, expected: str
) -> None:
    assert verdict(command, BUILD) == expected
