import pytest

from safetyd.console.render import explanation
from tests.console.render.answers import explained
from tests.filled import reading

account = reading(explanation.account)


def test_a_block_by_another_guard_is_not_said_to_be_the_judgement():
    told = explained(tier="auto_allowed", risk="medium", decided_by="gate")

    assert "auto_allowed by its type alone, risk medium" in account(told)


def test_what_nobody_knows_a_way_out_of_does_not_promise_one():
    assert "To be allowed" in account(explained())
    assert "To be allowed" not in account(explained(remedy=""))


def test_long_reasons_are_folded_to_the_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    long = "with budget.day_usd of at least $51.20, or at an estimate of at most $0.40, " * 3

    said = account(explained(reason=long, remedy=long))

    assert max(map(len, said.splitlines())) <= 80


def test_a_way_of_nothing_but_a_decision_is_not_told_again():
    step = {"seq": 1, "at": "2026-02-08T14:30:22Z", "what": "proposed"}

    assert account(explained(steps=[step])) == account(explained(steps=[]))
