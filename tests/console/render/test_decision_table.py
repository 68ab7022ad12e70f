import pytest

from safetyd.console.render import decision_table
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import Severity
from tests.console.render.answers import decision_row, event_row
from tests.filled import reading

decisions = reading(decision_table.decisions)
decision_line = reading(decision_table.decision_line)


@pytest.mark.parametrize(
    ("retry_after_s", "shown"),
    [(59.4902, "60 s"), (60.0, "60 s"), (10.01, "11 s"), (9.96, "10 s"), (1.42, "1.5 s")],
)
def test_the_time_to_try_again_is_short_and_never_too_early(retry_after_s: float, shown: str):
    blocked = Decision(id="p-1", agent="code", decision=Severity.BLOCK, retry_after_s=retry_after_s)

    assert f" {shown}\n" in decision_table.decision(blocked, "x")


def test_the_path_of_an_edit_comes_before_its_text() -> None:
    edit = decision_row(type="edit_file", text="x = 1", path="src/a.py")

    assert " edit_file: src/a.py: x = 1 [" in decision_line(edit)
    assert " edit_file: src/a.py and 2 more [" in decision_line(
        {**edit, "text": "src/a.py", "paths": 3}
    )


@pytest.mark.parametrize("columns", ["80", "100"])
def test_a_long_action_is_cut_to_the_terminal(
    monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)

    line = decisions([decision_row(text="x" * 200, cut=True, rule="")]).splitlines()[1]

    assert len(line) <= int(columns)
    assert "…" in line


def test_an_event_stands_among_decisions_with_room_for_its_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    long = event_row(message="x" * 60, rule="intake.rate_limit")

    heading, first, second, *_ = decisions([event_row(), long, decision_row()]).splitlines()

    begin = heading.index("ACTION")
    assert first[begin:] == "EMERGENCY_STOP by alice: drill"
    assert len(second) == 120


def test_who_did_something_is_said_once() -> None:
    answered = event_row(type="PERMISSION_DECIDED", message="approved by alice via cli")

    assert decision_line(answered).endswith("PERMISSION_DECIDED: approved by alice via cli")
    assert decision_line(event_row(message="")).endswith("EMERGENCY_STOP by alice")
