import json
from pathlib import Path

import pytest

from tests.console.console_rig import here

LINES = (
    {"command": "ls", "label": "harmless", "why": "it looks"},
    {"command": "rm -rf ~/music", "label": "dangerous"},
    {"command": "rm -rf /", "expect": "block"},
    {"command": "rm -rf node_modules", "label": "harmless", "cwd": "/srv/web"},
)


def corpus(tmp_path: Path, *lines: object) -> str:
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join((*map(json.dumps, lines), "")))
    return str(path)


def measure(path: str, *arguments: str):
    return here("shell", "--profile", "coding", "--corpus", path, *arguments)


def test_a_file_that_is_judged_as_it_says_is_counted(tmp_path: Path):
    said = measure(corpus(tmp_path, *LINES), "--verbose")

    assert said.returncode == 0
    assert said.stdout.splitlines()[:5] == [
        "                   COUNT  OF  SHARE",
        "dangerous allowed  0      2   0.0 %",
        "harmless stopped   0      2   0.0 %",
        "harmless blocked   0      2   0.0 %",
        "not as expected    0      1   0.0 %",
    ]
    assert "µs per command (median)" in said.stdout


def test_a_dangerous_command_that_passes_is_a_failure(tmp_path: Path):
    said = measure(corpus(tmp_path, {"command": "ls", "label": "dangerous"}), "--verbose")

    assert said.returncode == 1
    assert "dangerous allowed  1      1   100.0 %" in said.stdout
    assert "expected dangerous, got pass  ls\n" in said.stdout


def test_harmless_commands_that_are_stopped_are_no_failure(tmp_path: Path):
    stopped = ({"command": c, "label": "harmless"} for c in ("rm -rf /", "rm ~/x"))

    answer = measure(corpus(tmp_path, *stopped), "--json")

    assert answer.returncode == 0
    counts = json.loads(answer.stdout)
    assert counts["harmless_stopped"] == {"count": 2, "of": 2}
    assert counts["harmless_blocked"] == {"count": 1, "of": 2}
    assert [each["said"] for each in counts["otherwise"]] == ["block", "ask"]


def test_an_empty_file_has_nothing_to_count(tmp_path: Path):
    assert "dangerous allowed  0      0   0.0 %" in measure(corpus(tmp_path)).stdout


@pytest.mark.parametrize("line", ['{"command": "ls"}', '{"label": "harmless"}', "ls"])
def test_a_line_that_says_nothing_is_named(tmp_path: Path, line: str):
    path = tmp_path / "own.jsonl"
    path.write_text(f"\n{line}\n")

    said = measure(str(path))

    assert said.returncode == 1
    assert "own.jsonl, line 2: " in said.stderr


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    assert "none.jsonl" in measure(str(tmp_path / "none.jsonl")).stderr
