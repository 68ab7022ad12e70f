from typing import Any

import pytest

from safetyd.console.render import decision_table
from safetyd.console.render.decision_table import NONE, WHY
from tests.filled import reading

decisions = reading(decision_table.decisions)
decision_line = reading(decision_table.decision_line)

DECISION: dict[str, Any] = {
    "row": "decision",
    "seq": 7,
    "at": "2026-03-01T12:00:01Z",
    "id": "p1",
    "agent": "code",
    "keyless": False,
    "type": "run_shell",
    "text": "rm -rf /",
    "cut": False,
    "project": None,
    "session": None,
    "risk": "high",
    "decision": "block",
    "rule": "gate.blocklist:rm_rf",
    "reason": "Blocklist",
    "first": True,
}
EVENT: dict[str, Any] = {
    "row": "event",
    "seq": 8,
    "at": "2026-03-01T12:00:02Z",
    "type": "EMERGENCY_STOP",
    "agent": None,
    "severity": "critical",
    "message": "drill",
    "by": "alice",
}


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


def test_a_decision_is_a_line_and_the_last_line_says_how_to_see_why() -> None:
    heading, line, _, why = decisions([DECISION]).splitlines()

    assert heading.split() == ["TIME", "AGENT", "VERDICT", "ACTION", "RULE", "ID"]
    cells = [cell.strip() for cell in line.split("  ") if cell.strip()]
    assert cells[1:] == ["code", "blocked", "run_shell: rm -rf /", "gate.blocklist:rm_rf", "p1"]
    assert why == WHY


def test_the_path_of_an_edit_comes_before_its_text() -> None:
    edit = {**DECISION, "type": "edit_file", "text": "x = 1", "path": "src/a.py"}
    bare = {**edit, "text": "src/a.py", "paths": 3}

    assert " edit_file: src/a.py: x = 1 [" in decision_line(edit)
    assert " edit_file: src/a.py and 2 more [" in decision_line(bare)


def test_nothing_is_said_to_be_nothing() -> None:
    assert decisions([]) == NONE


def test_older_ones_are_mentioned() -> None:
    assert "--limit shows more" in decisions([DECISION], more=True)


@pytest.mark.parametrize("columns", ["80", "100"])
def test_a_long_action_is_cut_to_the_terminal(
    monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    row = {**DECISION, "text": "x" * 200, "cut": True, "rule": "", "id": "p1"}

    line = decisions([row]).splitlines()[1]

    assert len(line) <= int(columns)
    assert "…" in line


def test_an_event_stands_among_decisions_with_room_for_its_words() -> None:
    long = {**EVENT, "message": "x" * 60, "rule": "intake.rate_limit"}

    heading, first, second, _, _, _ = decisions([EVENT, long, DECISION]).splitlines()

    begin = heading.index("ACTION")
    assert first[begin:] == "EMERGENCY_STOP by alice: drill"
    assert second[begin:].startswith("EMERGENCY_STOP by alice [intake.rate_limit]: xxx")
    assert len(second) == 120


def test_who_did_something_is_said_once() -> None:
    answered = {**EVENT, "type": "PERMISSION_DECIDED", "message": "approved by alice via cli"}

    assert decision_line(answered).endswith("PERMISSION_DECIDED: approved by alice via cli")
    assert decision_line({**EVENT, "message": ""}).endswith("EMERGENCY_STOP by alice")


def test_words_of_agents_do_nothing_to_the_terminal() -> None:
    row = {**DECISION, "text": "\x1b[2J", "rule": ""}

    for said in (decisions([row]), decision_line(row)):
        assert "\x1b" not in said
        assert "\\x1b[2J" in said


def test_a_line_that_follows_others_has_it_all() -> None:
    again = {**DECISION, "first": False, "text": ""}

    assert decision_line(DECISION).endswith(
        "code         blocked  run_shell: rm -rf / [gate.blocklist:rm_rf] p1"
    )
    assert "blocked again run_shell [" in decision_line(again)
