"""What rows say by options, whatever the verb."""

import msgspec
import pytest

from safetyd.core.shell import judge, programs
from safetyd.core.shell.programs import Row

_ROW = {
    "read": ["status", {"words": "list", "arguments": "text"}, {"with": ["--plan"]}],
    "work": ["make"],
    "leaves": [{"with": ["--host"]}],
    "arguments": "write",
}


@pytest.fixture
def table() -> programs.Table:
    return programs.shipped().with_rows({"tool": msgspec.convert(_ROW, Row)})


@pytest.mark.parametrize(
    ("command", "passes"),
    [
        ("tool status", True),
        ("tool status --host far", False),
        ("tool --plan status", True),
        ("tool make --host far", False),
        ("tool make --plan", True),
        ("tool --host far", False),
        ("tool make /etc/motd", False),
        ("tool list /etc/motd", True),
    ],
)
def test_option_without_a_verb_holds_for_every_verb(
    command: str, *, passes: bool, table: programs.Table
) -> None:
    assert (not judge.read(command, table).stopping) is passes
