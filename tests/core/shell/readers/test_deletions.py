"""What may be deleted: by where it lies, and by what a build makes again."""

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
def test_folders_above_the_root_do_not_make_a_path_one_that_is_made_again(
    command: str, expected: str
) -> None:
    assert verdict(command, BUILD) == expected
