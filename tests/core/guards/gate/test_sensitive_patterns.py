"""Sensitive files are found in every spelling. A pattern that may match one is judged like it."""

import json

import pytest

from safetyd.console.shell.command_trial import CommandTrial, Place
from safetyd.console.shell.corpus import SAID
from safetyd.core.policy import Policy
from safetyd.core.text.path_globs import Globs, PathTarget
from tests.checkout import ROOT

FILES = sorted((ROOT / "tests/corpus/sensitive").glob("*.jsonl"))
LINES = [line for file in FILES for line in file.read_text().splitlines()]
CASES = [(case["command"], case["expect"]) for case in map(json.loads, LINES)]


@pytest.fixture(scope="module")
def trial() -> CommandTrial:
    return CommandTrial(Policy(profile="coding"))


@pytest.mark.parametrize(("command", "expected"), CASES)
def test_a_command_is_judged_by_the_files_that_its_words_may_name(
    trial: CommandTrial, command: str, expected: str
) -> None:
    assert SAID[trial.decide(command, Place())] == expected


def test_a_command_with_many_patterns_needs_approval(trial: CommandTrial) -> None:
    many = " ".join(f"a{number}*" for number in range(100))

    assert SAID[trial.decide(f"cat {many}", Place())] == "ask"


@pytest.mark.parametrize(
    ("pattern", "glob", "found"),
    [
        ("~/.ssh/*.pub", "**/.ssh/**", False),
        ("/srv/keys/op*", "/srv/keys/**", True),
        ("/srv/k*/op*", "/srv/keys/**", True),
        ("/s*/keys", "/etc/**", False),
        ("~/a*", "**/abc", False),
        ("~/*c", "**/abc", False),
        ("a*/x", "**/abc/*/y", False),
        ("~/abc*/x/y*", "**/abc/*/y", True),
        ("**", "**/abc", False),
        ("~/.x*/**/abc", "**/.xyz/abc", True),
        ("~/.x*/a/b", "**/.xyz/a", False),
    ],
)
def test_literal_characters_of_a_pattern_point_to_a_glob(
    pattern: str,
    glob: str,
    found: bool,  # noqa: FBT001
) -> None:
    globs = Globs((glob, "!**/*.pub"), ignore_case=True)

    assert bool(globs.find(PathTarget(pattern, pattern, pattern=True))) is found
