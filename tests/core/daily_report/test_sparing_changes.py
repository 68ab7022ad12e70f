"""The changes that would have spared the most, each exactly as it would be written."""

import shlex
import tomllib
from typing import Any

import msgspec
import pytest

from safetyd.core.daily_report.day_numbers import DayNumbers, PersonNumbers, Question
from safetyd.core.daily_report.sparing_changes import SHOWN, SparingChange, changes
from safetyd.core.engine.engine import Engine
from safetyd.core.guards.projects import ProjectConfig
from safetyd.core.guards.rules import CustomRule, RulesConfig
from safetyd.core.messages.verdict import Severity
from safetyd.core.policy import Policy
from safetyd.core.recipients import QuietHours, Recipient, TellingConfig
from safetyd.core.rota import RotaPolicy, WeeklyShift
from tests.core.approvals.queue_story import QueueStory
from tests.core.daily_report.day_events import FIRST, configured, folded
from tests.story import ask, propose

WEB = Policy(projects={"web": ProjectConfig(root="/srv/web", checks=("ruff check",))})
PEOPLE = Policy(
    telling=TellingConfig(
        recipients=(
            Recipient(name="ann", channels=("sms",), quiet=QuietHours(start="22:00")),
            Recipient(name="bob", channels=("sms",)),
        )
    )
)


def found(policy: Policy | None = None, **numbers: Any) -> list[SparingChange]:
    return [*changes(DayNumbers(**numbers), policy or Policy())]


def question(**fields: Any) -> Question:
    known = {"agent": "code", "type": "run_shell", "rules": ("classify.high",), "asked": 4}
    return Question(**{**known, **fields})


def test_requests_about_a_tool_are_spared_by_a_check_that_covers_them() -> None:
    queue = QueueStory(WEB)
    queue.happens(configured(0, WEB))
    for n in range(3):
        text = f"pytest -q tests/test_{n % 2}.py"
        said: dict[str, Any] = {"type": "run_shell", "project": "web", "cwd": "/srv/web"}
        asked = queue.proposes(propose(n, id=f"p{n}", text=text, **said))
        assert asked.status == "pending"
        queue.answers(n, asked.request_id, waits=True)
    numbers = folded(*queue.journal).days[FIRST]

    (change, *_) = changes(numbers, WEB)

    assert (change.kind, change.spares, change.of) == ("check", 3, "requests")
    assert change.says == "Declare pytest as a check of web (3 requests)"
    table = tomllib.loads(change.change)["projects"]["web"]
    web = msgspec.structs.replace(WEB.projects["web"], checks=tuple(table["checks"]))
    fixed = Engine(msgspec.structs.replace(WEB, projects={"web": web}))
    again = propose(9, type="run_shell", text="pytest -x", project="web", cwd="/srv/web")
    assert ask(fixed, again).allowed
    assert not ask(Engine(WEB), again).allowed


@pytest.mark.parametrize(
    ("fields", "policy"),
    [
        ({"asked": 1, "project": "web"}, WEB),
        ({"project": "web", "denied": 1}, WEB),
        ({"project": "gone"}, WEB),
    ],
)
def test_a_check_is_for_requests_that_repeat_and_are_not_denied(
    fields: Any, policy: Policy
) -> None:
    asked = question(check="pytest", **fields)

    assert "check" not in {one.kind for one in found(policy, questions={"k": asked})}


def test_what_was_always_approved_is_spared_by_a_grant() -> None:
    push = question(type="push", text="git push origin main", approved=4)

    (change,) = found(questions={"k": push})

    assert change.says == "Allow push by code: git push origin main (4 requests)"
    assert shlex.split(change.change)[:3] == ["safetyd", "grant", "add"]


def test_what_was_denied_again_and_again_is_forbidden() -> None:
    deploy = question(type="deploy", text="deploy web", asked=1, denied=1, again=6)

    (change,) = found(questions={"k": deploy})

    assert (change.kind, change.says) == ("rule", "Forbid deploy by code: deploy web (1 request)")
    (rule,) = tomllib.loads(change.change)["rules"]["custom"]
    assert rule["reason"] == "denied 7 times and never approved"
    engine = Engine(Policy(rules=RulesConfig(custom=(msgspec.convert(rule, CustomRule),))))
    assert ask(engine, propose(0, type="deploy", text="deploy web")).decision is Severity.BLOCK
    assert ask(engine, propose(1, id="o", type="deploy", text="x")).decision is Severity.ASK


def test_nothing_is_proposed_for_what_happened_once_or_needs_a_person() -> None:
    once = question(asked=1, text="make", approved=1)
    human = question(type="send_email", text="hi", human=True, denied=4)

    assert found(questions={"a": once, "b": human, "c": question(denied=1, approved=2)}) == []


def test_an_action_without_text_is_named_by_its_type() -> None:
    (change,) = found(questions={"k": question(type="deploy", asked=5, denied=5)})

    assert change.says == "Forbid deploy by code (5 requests)"


@pytest.mark.parametrize(
    ("field", "telling", "change"),
    [
        ("echoes", {"strategy": "sequential"}, '[notifications]\nstrategy = "sequential"'),
        ("only_summaries", {"summaries": "review"}, '[notifications]\nsummaries = "review"'),
    ],
)
def test_messages_are_spared_by_a_setting_unless_it_is_set(
    field: str, telling: dict[str, Any], change: str
) -> None:
    people = {"ann": msgspec.convert({field: 3}, PersonNumbers)}
    people["bob"] = msgspec.convert({field: 2}, PersonNumbers)
    done = Policy(telling=TellingConfig(**telling))

    (made,) = found(people=people)

    assert (made.kind, made.spares, made.of, made.change) == ("setting", 5, "messages", change)
    assert found(done, people=people) == []


def test_nights_of_several_people_are_spared_by_a_rota() -> None:
    people = {"ann": PersonNumbers(at_night=4), "bob": PersonNumbers(at_night=3)}

    (made,) = found(PEOPLE, people=people)

    assert made.says == "Let one person at a time be on call at night (3 messages)"
    (shift,) = tomllib.loads(made.change)["people"]["rota"]["shifts"]
    assert shift == {"who": "ann", "from": "22:00", "to": "07:00"}
    rota = RotaPolicy(shifts=(msgspec.convert(shift, WeeklyShift),))
    assert found(msgspec.structs.replace(PEOPLE, rota=rota), people=people) == []
    assert found(PEOPLE, people={"ann": PersonNumbers(at_night=9)}) == []
    assert len(found(people=people)) == 1, "also if the recipients are gone"


def test_the_three_that_spare_the_most_are_shown() -> None:
    asked = {
        str(n): question(type="push", text=f"git push origin b{n}", asked=n, approved=n)
        for n in range(2, 9)
    }

    made = found(questions=asked)

    assert [one.spares for one in made] == [8, 7, 6]
    assert len(made) == SHOWN
