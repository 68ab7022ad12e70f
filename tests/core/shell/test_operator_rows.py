"""Rows that an operator adds under [shell.programs]."""

import tomllib
from typing import Final

import msgspec
import pytest

from safetyd.core.shell.programs import Row, digest, problems, shipped
from tests.core.shell.verdicts import verdict


def rows(text: str) -> dict[str, Row]:
    return msgspec.convert(tomllib.loads(text), dict[str, Row])


TABLE: Final = shipped().with_rows(
    rows("""
    [tool]
    read = ["status", { words = "list", arguments = "text" }, { with = ["--plan"] }]
    work = ["make"]
    leaves = [{ with = ["--host"] }]
    arguments = "write"

    [ship]
    read = [
        { words = "out", with = ["--dry-run=client", "--dry-run=server"] },
        { words = "out --list" },
        { words = "out", with = ["--format"] },
        "exec",
        "queue list",
    ]
    leaves = ["out", "queue *", { words = "in", with = ["--to=cloud"] }]
    work = ["in"]
    otherwise = "unknown"
    options_with_value = ["--format", "--to"]
    run = ["exec"]

    [move]
    effect = "work"
    arguments = "move"

    [copy]
    effect = "work"
    arguments = "copy"

    [words]
    effect = "read"
    arguments = "text"
    output = "text"
    texts = []

    [hide]
    effect = "read"
    output = "decoded"

    [same]
    effect = "read"
    output = "same"

    [each]
    wraps = { input = true, optional = true }

    [inside]
    effect = "work"
    wraps = { after = "--" }
    """)
)

PASSES: Final = """
    tool status
    tool --plan status
    tool make --plan
    tool list /etc/motd
    ship out --dry-run=client
    ship out --dry-run=server
    ship out --list
    ship out --list=true
    ship out --format json
    ship in --to=disk
    ship in
    ship out --help
    ship help out
    ship queue list
    ship exec -- /opt/app/start
    move a b
    copy /etc/a b
    words ls src | sh
    same <<< ls | sh
    ls | each cat
    each
"""
NEEDS_APPROVAL: Final = """
    tool status --host far
    tool make --host far
    tool --host far
    tool make /etc/motd
    ship out --dry-run=none
    ship out --dry-run
    ship queue drop
    ship out --dry-run=client --dry-run=none
    ship out --dry-$X
    ship out --list=false
    ship out --$X
    ship in --to=cloud
    ship in --to="$X"
    ship out --help=false
    move /etc/a b
    copy a /etc/b
    words sudo ls | sh
    each rm
    ls | each rm
    inside x
"""
BLOCKED: Final = """
    ship exec -- rm -rf / --help
    hide a | sh
    inside x -- rm -rf /
"""


@pytest.mark.parametrize(
    ("commands", "expected"), [(PASSES, "pass"), (NEEDS_APPROVAL, "ask"), (BLOCKED, "block")]
)
def test_rows_of_operators_decide_the_verdict(commands: str, expected: str) -> None:
    given = [line.strip() for line in commands.strip().splitlines()]

    assert {command: verdict(command, table=TABLE) for command in given} == dict.fromkeys(
        given, expected
    )


def test_rows_are_added_to_the_shipped_table() -> None:
    assert {"tool", "git"} <= set(TABLE.names())
    assert shipped().with_rows({}) is shipped()
    assert digest().startswith("sha256:")


def test_mistakes_in_rows_are_reported_with_their_keys() -> None:
    given = rows("""
        [mine]
        effect = "read"
        reader = "git"
        ["a/b"]
        effect = "read"
        [nothing]
        [both]
        effect = "read"
        otherwise = "work"
        [empty]
        work = [{}, "get"]
    """)

    found = [key for key, _ in problems(given)]

    assert found == ["mine.reader", "a/b", "nothing", "both.otherwise", "empty"]
