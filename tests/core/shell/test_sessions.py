"""Sessions of coding agents need only a few approvals."""

import json
from pathlib import Path

import pytest

from safetyd.core.shell.places import Project
from safetyd.core.shell.reading import Effect
from tests.core.shell.verdicts import stopping

SESSIONS = Path("tests/corpus/sessions")
MOST = 6  # approvals in a session of eighty commands


def commands(name: str) -> list[dict[str, str]]:
    lines = (SESSIONS / f"{name}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    ("name", "root"),
    [
        ("python", "/home/dev/app"),
        ("web", "/home/dev/shop"),
        ("infrastructure", "/home/dev/infra"),
    ],
)
def test_a_session_needs_only_a_few_approvals(name: str, root: str) -> None:
    asked, granted = list[str](), set[str]()
    for line in commands(name):
        found = stopping(line["command"], Project(root, root))
        unknown = {f.program for f in found if f.effect is Effect.UNKNOWN}
        left = [f for f in found if f.effect is not Effect.UNKNOWN or f.program not in granted]
        if left:
            asked.append(line["command"])
        if found and len(unknown) == 1 and all(f.effect is Effect.UNKNOWN for f in found):
            granted |= unknown  # the operator allows the program and its verb for the session
        assert not any(f.blocks for f in found) or line["asks"], line["command"]

    assert len(asked) <= MOST, asked
