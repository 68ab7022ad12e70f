import tomllib

from safetyd.core.action_types import Kinds
from safetyd.core.daily_report.day_numbers import DayNumbers, Question
from safetyd.core.daily_report.spared_questions import SHOWN, RepeatedQuestion, repeated
from safetyd.core.shell.shape import NUMBER

KINDS = Kinds({}, "strict")


def shown(**fields: object) -> RepeatedQuestion:
    """Return how a question is shown that was asked five times."""
    known = {"agent": "code", "type": "push", "rules": ("classify.high",), "asked": 5, **fields}
    question = Question(**known)  # type: ignore[arg-type]
    (found,) = repeated(DayNumbers(questions={"k": question}), KINDS)
    return found


def test_what_was_asked_once_did_not_repeat() -> None:
    once = Question(agent="code", type="push", asked=1)

    assert repeated(DayNumbers(questions={"k": once}), KINDS) == ()


def test_the_questions_that_were_asked_most_are_shown() -> None:
    asked = {
        str(n): Question(agent=f"a{n:02}", type="push", asked=2 + n // 2) for n in range(SHOWN + 5)
    }

    found = repeated(DayNumbers(questions=asked), KINDS)

    assert len(found) == SHOWN
    assert [each.asked for each in found] == sorted((each.asked for each in found), reverse=True)
    assert found[0].agent == "a14"


def test_what_was_always_approved_could_have_been_granted() -> None:
    found = shown(text="git push origin main", approved=3)

    assert found.spared_by == "grant"
    assert found.spared == (
        "safetyd grant add --agent code --type push --text '(?-i)^git push origin main$' "
        "--uses 5 --for 24h --reason '...'"
    )


def test_a_grant_names_the_one_rule_that_it_has_to_lift() -> None:
    rules = ("classify.high", "gate.blocklist:force_push")

    found = shown(text="git push -f", approved=3, rules=rules, asked=50)

    assert "--rule gate.blocklist:force_push" in found.spared
    assert "--uses 20" in found.spared


def test_what_was_approved_often_enough_could_be_a_rule() -> None:
    found = shown(text="git push origin main", approved=5)

    assert found.spared_by == "rule"
    (rule,) = tomllib.loads(found.spared)["rules"]["custom"]
    assert rule["then"] == "allow"


def test_a_program_that_nobody_knows_could_be_in_the_table() -> None:
    found = shown(type="run_shell", text="mytool build", program="mytool build", approved=5)

    assert found.spared_by == "rule"
    assert tomllib.loads(found.spared) == {"shell": {"programs": {"mytool": {"work": ["build"]}}}}


def test_what_was_always_denied_could_be_blocked_whatever_its_text_is() -> None:
    found = shown(text="git push origin main", program="x", denied=5)

    (rule,) = tomllib.loads(found.spared)["rules"]["custom"]
    assert (rule["then"], "text" in rule["when"]) == ("block", False)


def test_without_a_grant_or_rule_the_remedy_of_the_guard_is_told() -> None:
    remedy = "with confidence >= 0.7"

    for fields in (
        {"denied": 1, "approved": 1, "text": "x"},
        {"approved": 2},  # more than a text was asked about
        {"approved": 2, "text": "x", "raised": True},
        {"approved": 2, "text": "x", "rules": ("gate.confidence",)},
        {"approved": 2, "text": "x", "rules": ("classify.a", "classify.b")},
    ):
        found = shown(remedy=remedy, **fields)
        assert (found.spared_by, found.spared) == ("remedy", remedy), fields


def test_where_people_must_be_asked_nothing_spares_it() -> None:
    assert shown(human=True, remedy="by a person").spared_by == ""
    assert shown(denied=1).spared_by == ""


def test_blanks_of_a_shape_are_said_in_words() -> None:
    found = shown(text=f"make -j {NUMBER}", approved=1)

    assert found.text == "make -j <a number>"
    assert "[0-9]+" in found.spared
