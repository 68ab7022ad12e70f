import json
from pathlib import Path

import pytest

from tests.console.console_rig import at_a_terminal, here

CODING = ("--profile", "coding")


def shell(*arguments: str, stdin: str = "", **variables: str):
    return here("shell", *CODING, *arguments, stdin=stdin, **variables)


def config(tmp_path: Path, text: str) -> tuple[str, str]:
    path = tmp_path / "safetyd.toml"
    path.write_text(text)
    return "--config", str(path)


@pytest.mark.parametrize(
    ("command", "code", "head"),
    [
        ("ls -la | grep foo", 0, "ALLOWED"),
        ("rm -rf ~/music", 3, "NEEDS APPROVAL: `rm -rf ~/music` deletes ~/music, which is outside"),
        ("rm -rf /", 1, "BLOCKED: `rm -rf /` "),
    ],
)
def test_a_command_is_judged_as_the_daemon_would(command: str, code: int, head: str):
    said = shell(command)

    assert said.returncode == code
    assert f"\n{head}" in said.stdout


def test_a_part_stands_below_what_it_is_inside_of():
    said = shell("sh -c 'ls | xargs rm -rf ~/music'", COLUMNS="100")

    assert said.stdout.startswith(
        "sh -c\n"
        "  allow    ls\n"
        "           read: only reads\n"
        "  xargs\n"
        "    approve  xargs rm -rf ~/music\n"
        "             irreversible: deletes ~/music, which is outside the project\n"
    )
    assert "             deletes ~/music, *\n" in said.stdout


def test_a_command_may_stand_on_standard_input():
    assert shell(stdin="rm -rf /\n").returncode == shell("rm -rf /").returncode == 1


@pytest.mark.parametrize("stdin", ["", "\n", "x" * 8193])
def test_what_can_be_no_command_is_refused(stdin: str):
    assert shell(stdin=stdin).returncode == 2


def test_at_a_terminal_a_command_must_be_named():
    assert "a command in quotes" in at_a_terminal("shell")


def test_no_line_is_wider_than_the_terminal():
    lines = shell("sudo rm -rf ~/music > /etc/x && cat ~/.ssh/id_rsa", COLUMNS="60").stdout

    assert max(map(len, lines.splitlines())) <= 60


def test_hostile_words_do_not_reach_the_terminal():
    assert "\x1b" not in shell("rm -rf ~/\x1b[2J").stdout


def test_programs_get_the_parts_and_the_verdict():
    answer = json.loads(shell("--json", "ls; rm -rf ~/music").stdout)

    assert answer["decision"] == "require_confirmation"
    assert answer["rules"] == ["gate.shell:irreversible", "shell.rm"]
    assert answer["remedy"] == "by a person, or with a path inside the project"
    assert [part["verdict"] for part in answer["parts"]] == ["allow", "require_confirmation"]
    assert answer["parts"][1]["touches"] == [{"path": "~/music", "access": "delete"}]
    assert (answer["parts"][1]["start"], answer["parts"][1]["end"]) == (4, 18)


def test_a_rule_that_stops_what_would_pass_is_named():
    said = shell("cat ~/.ssh/id_rsa")

    assert said.returncode == 3
    assert said.stdout.startswith("approve  cat ~/.ssh/id_rsa\n")
    assert "may contain secrets" in said.stdout.split("\n\n")[0]


def test_an_operators_rules_hold_for_parts(tmp_path: Path):
    allowed = config(tmp_path, '[rules]\nallow_without_permission = ["delete_file_outside"]\n')

    said = json.loads(shell("--json", *allowed, "rm ~/music").stdout)

    assert (said["decision"], said["parts"][0]["verdict"]) == ("allow", "allow")


def test_strict_asks_about_work_and_lets_pass_what_only_looks():
    assert here("shell", "ls").returncode == 0
    assert here("shell", "rm a.log").returncode == 3
    assert shell("rm a.log").returncode == 0


def test_the_folder_of_a_project_counts(tmp_path: Path):
    web = config(tmp_path, '[projects.web]\nroot = "/srv/web"\nagents = ["code"]\n')

    inside = shell(*web, "--project", "web", "rm /srv/web/a.log")
    outside = shell(*web, "--project", "web", "--cwd", "/srv/web", "rm ../a")

    assert (inside.returncode, outside.returncode) == (0, 3)


def test_a_project_that_is_not_there_is_refused():
    said = shell("--project", "web", "ls")

    assert said.returncode == 2
    assert "unknown project 'web'" in said.stderr


def test_a_wrong_file_is_refused(tmp_path: Path):
    assert shell(*config(tmp_path, "mode = 1\n"), "ls").returncode == 1


def test_patterns_are_told_as_such(tmp_path: Path):
    said = shell(*config(tmp_path, '[gate]\nshell = "patterns"\n'), "git push")

    assert said.returncode == 3
    assert "gate.shell is " in said.stdout
