"""What a simulation found, as people read it."""

from typing import Any

import pytest

from safetyd.console.simulation import simulation_words
from safetyd.console.simulation.past_record import PastRun
from safetyd.core.messages.verdict import ALLOW, ASK, BLOCK
from safetyd.core.simulation.report import (
    AnomalyChange,
    AnswersUsed,
    Change,
    Difference,
    Example,
    HourlyChange,
    SimulationReport,
    SpendingChange,
)
from tests.story import NOON

HOSTILE = "\x1b]0;owned\x07"


@pytest.fixture(autouse=True)
def in_utc(live_in) -> None:
    live_in("UTC")


def told(zone: str = "", **fields: Any) -> list[str]:
    report = SimulationReport(first_at=NOON, last_at=NOON, **fields)
    return simulation_words.simulation(PastRun(report=report), zone).splitlines()


def example(text: str) -> Example:
    return Example(seq=1, at=NOON, agent="code", id="p1", type="push", text=text, reason="x")


def test_a_difference_has_its_rule_where_it_belongs():
    rows = (
        (BLOCK, ALLOW, "2 blocked by r, would be allowed (code 2)"),
        (ALLOW, ASK, "2 allowed, would be sent for approval by r (code 2)"),
        (ASK, ASK, "2 sent for approval as before, now by r (code 2)"),
    )
    for was, would, line in rows:
        found = Difference(was=was, would=would, rule="r", count=2, agents={"code": 2})
        assert line in told(decisions=2, differences=[found])


def test_what_a_person_had_denied_is_said_and_many_agents_are_counted():
    agents = {f"a{number}": 1 for number in range(7)}
    found = Difference(was=ASK, would=ALLOW, rule="r", count=7, denied=2, agents=agents)

    lines = told(decisions=7, differences=[found], loosened=2)

    agents_named = "a0 1, a1 1, a2 1, a3 1, a4 1, and 2 more agents"
    assert f"7 sent for approval by r, would be allowed ({agents_named})" in lines
    assert "  an operator denied 2 of these" in lines
    assert any(line.startswith("WARNING: 2 actions ") for line in lines)


def test_words_of_agents_do_nothing_to_a_terminal():
    found = Difference(was=ASK, would=ALLOW, rule="r", count=1, examples=[example(HOSTILE)])

    assert not any("\x1b" in line for line in told(decisions=1, differences=[found]))


def test_people_hear_more_or_less_at_hours_of_the_day():
    questions = HourlyChange(was=3, would=5)
    questions.was_by_hour[9], questions.would_by_hour[9], questions.would_by_hour[23] = 3, 3, 2
    lines = told(
        "Europe/Berlin",
        questions=questions,
        questions_of={"code": Change(was=3, would=5), "ops": Change(was=1, would=1)},
        messages={"alice": HourlyChange(was=2, would=2)},
        answers=AnswersUsed(alike=4, missing=3, not_taken=1),
    )

    assert "Requests for approval: 5 instead of 3" in lines
    assert "  at 23h 2 instead of 0 (Europe/Berlin)" in lines
    assert "  of code: 5 instead of 3" in lines
    assert not any("of ops" in line for line in lines)
    used = [line for line in lines if line.startswith("  ") and " would " in line]
    assert [line.split()[0] for line in used] == ["4", "3", "1"]
    assert "Messages to alice: 2, unchanged" in lines


def test_money_and_anomalies_are_told():
    lines = told(
        spending=SpendingChange(was_usd=1.0, would_usd=2.5, estimated_usd=0.5),
        anomalies={"anomaly.x": AnomalyChange(was=1, would=2, severity="high", example="y")},
    )

    assert lines[-3:] == [
        "Spending: $2.50 instead of $1.00",
        "  plus an estimated $0.50 for actions that were not run",
        "anomaly.x (high): 2 instead of 1",
    ]


@pytest.mark.parametrize(("unread", "line"), [(1, "1 decision about "), (2, "2 decisions about ")])
def test_what_was_masked_is_counted(unread: int, line: str):
    assert any(each.startswith(line) for each in told(decisions=1, same=1, unread=unread))
