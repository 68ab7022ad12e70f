import json
from pathlib import Path

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


def test_a_program_is_told_in_words(tmp_path: Path):
    said = here("shell", "--table", *own(tmp_path), "fleet", COLUMNS="100")

    assert said.stdout == (
        "fleet\n"
        "  read          get, logs without --delete\n"
        "  irreversible  drop with --now or -f (blocked: drops a fleet)\n"
        "  otherwise     leaves: changes the fleet\n"
        "  bare          read, without any words\n"
        "  writes        -o: the file that follows is written\n"
        "  reads         -i: the file that follows is read\n"
        "  runs          --hook: what follows is run as a command\n"
        "  texts         -m: what follows is text or a pattern\n"
        "  values        -n: what follows is a value of theirs\n"
        "  run           exec: what follows -- is a command, elsewhere\n"
        "  words         1 that are no files, then files that are read\n"
        "  prints        what comes from the network\n"
        "  type          rules for deploy hold for it\n"
        "  allowed       as `fleet get`\n"
    )


def test_a_program_that_runs_others_says_how(tmp_path: Path):
    said = here("shell", "--table", *own(tmp_path), "later", COLUMNS="200").stdout

    assert said == (
        "later\n"
        "  wraps  runs the command that its words name, after 1 of its own, after --, after "
        "NAME=value, joined and read by a shell, elsewhere, so that paths are not ours, with "
        "words from its standard input\n"
    )


def test_what_is_never_let_pass_says_so(tmp_path: Path):
    said = here("shell", "--table", *own(tmp_path), "fasttext").stdout

    assert "  effect  work, blocked: never here\n" in said


def test_a_program_that_a_function_reads_says_so():
    assert "read by a function of their own" in here("shell", "--table", "rm").stdout


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
    assert heads[0] == "READ, only look"
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
    assert "no-such-program is not in the table" in said.stderr
