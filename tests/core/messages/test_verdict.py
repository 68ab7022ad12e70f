import pytest

from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict, strictest


def verdict(severity: Severity, rule: str) -> Verdict:
    return Verdict("g", severity, rule, "")


def test_block_beats_ask_beats_allow() -> None:
    assert [severity.rank for severity in Severity] == [0, 1, 2]


def test_of_equals_the_first_gives_the_reason() -> None:
    asks = [verdict(Severity.ASK, "one"), verdict(Severity.ASK, "two")]

    assert strictest(asks).rule == "one"


def test_strictest_of_nothing_is_allowed() -> None:
    assert strictest([]) is ALLOWED


@pytest.mark.req("S4.17")
def test_verdicts_have_the_words_of_the_contract() -> None:
    assert [severity.value for severity in Severity] == ["allow", "require_confirmation", "block"]


def test_a_decision_is_no_truth_value() -> None:
    allowed = Decision(agent="a", id="p1", decision=Severity.ALLOW)

    assert allowed.allowed
    with pytest.raises(TypeError, match="allowed"):
        bool(allowed)
