import json
import tomllib
from pathlib import Path

import msgspec
import pytest

from safetyd.console.render.program_table import one_program
from safetyd.core.shell.programs import Row, shipped
from tests.console.console_rig import here

OWN = """
[shell.programs.fleet]
options_with_value = ["-n"]
read = ["get", { words = "logs", without = ["--delete"] }]
irreversible = [{ words = "drop", with = ["--now", "-f"], why = "drops a fleet", blocks = true }]
otherwise = "leaves"
bare = "read"
why = "changes the fleet"
writes = ["-o"]
reads = ["-i"]
runs = ["--hook"]
texts = ["-m"]
run = ["exec"]
patterns = 1
output = "network"
type = "deploy"
remedy = "as `fleet get`"

[shell.programs.later]
wraps = { skip = 1, assigns = true, text = true, elsewhere = true, after = "--", input = true }

[shell.programs.fasttext]
effect = "work"
blocks = true
why = "never here"
"""


def own(tmp_path: Path) -> tuple[str, str]:
    path = tmp_path / "safetyd.toml"
    path.write_text(OWN)
    return "--config", str(path)


@pytest.mark.parametrize("name", ["fleet", "later", "fasttext"])
def test_an_operators_row_is_printed_as_it_could_be_written(tmp_path: Path, name: str):
    said = here("shell", "--table", *own(tmp_path), name, COLUMNS="60").stdout

    printed = tomllib.loads(said)["shell"]["programs"][name]
    given = tomllib.loads(OWN)["shell"]["programs"][name]
    assert printed == {"arguments": "read", **given}


def test_a_shipped_row_is_one_that_reads_the_same():
    program = shipped().find("git")
    assert program is not None

    said = one_program(program, 80)

    row = msgspec.convert(tomllib.loads(said)["shell"]["programs"]["git"], Row)
    names = (field.name for field in msgspec.structs.fields(Row))
    assert all(getattr(row, name) == getattr(program.row, name) for name in names)


def test_programs_get_a_row_without_what_it_leaves_open(tmp_path: Path):
    row = json.loads(here("shell", "--table", "--json", *own(tmp_path), "fasttext").stdout)

    assert row == {
        "program": "fasttext",
        "effect": "work",
        "blocks": True,
        "why": "never here",
        "arguments": "read",
    }


def test_all_programs_stand_in_columns_by_effect(tmp_path: Path):
    said = here("shell", "--table", *own(tmp_path), COLUMNS="80").stdout

    heads = [line for line in said.splitlines() if line and not line.startswith(" ")]
    assert heads[0].startswith("READ, ")
    assert "BY VERB" in heads
    assert max(map(len, said.splitlines())) <= 80


def test_all_programs_as_json(tmp_path: Path):
    known = json.loads(here("shell", "--table", "--json", *own(tmp_path)).stdout)

    assert "fleet" in known["by verb"]
    assert "later" in known["runs another program"]
    assert "fasttext" in known["work"]


def test_a_program_that_nobody_knows_is_said_to_be_asked_about():
    said = here("shell", "--table", "no-such-program")

    assert said.returncode == 1
    assert "unknown program no-such-program" in said.stderr
