"""The facts of a request are the same wherever they come from, and are put into words once."""

from typing import Any

import msgspec
import pytest

from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import Paused
from safetyd.core.messages.verdict import CommandPart
from safetyd.core.policy import Policy
from safetyd.operators.views.request_facts import (
    RequestFacts,
    Section,
    danger_by,
    danger_of,
    facts_of,
    facts_of_card,
    marked_parts,
    sections,
    time_left,
    words_of,
)
from safetyd.operators.views.request_view import request
from tests.core.approvals.queue_story import QueueStory
from tests.operators.views.view_reader import plain
from tests.story import at

CODING = Policy(profile="coding")
FACTS = {
    "id": "req_1",
    "agent": "code",
    "type": "push",
    "digest": f"sha256:{'0123456789abcdef' * 4}",
    "risk": "low",
    "reversibility": "reversible",
    "proposal": {"id": "p1"},
}


def facts(**changes: Any) -> RequestFacts:
    proposal = {**FACTS["proposal"], **changes.pop("proposal", {})}  # type: ignore[dict-item]
    return facts_of_card({**FACTS, **changes, "proposal": proposal})


def test_facts_are_the_same_from_the_engine_and_from_the_json_of_a_view() -> None:
    queue = QueueStory()
    context = msgspec.Raw(b'{"diff": "+x"}')
    asked = queue.asks(0, context=context, description="Push", rollback="revert", cost_usd=0.4)
    known = queue.request(asked.request_id)

    view = request(queue.engine, Moment(at(1), 1.0), known.id)

    assert facts_of(known) == facts_of_card(plain(view)["request"])
    assert facts_of(known).words == "git push origin main"


def test_a_pause_that_nobody_ends_goes_on() -> None:
    queue = QueueStory()
    queue.happens(Paused(at=at(0), t=0.0, agent="code", source="anomaly", by="", reason="loops"))
    (own,) = queue.engine.approvals.pending()

    assert facts_of(own).silence == "Without an answer the agent stays paused."
    assert facts_of(own).lack == ""
    assert facts_of(own).words == "loops"


def test_an_agent_that_calls_its_own_proposal_unpause_is_not_told_of_as_paused() -> None:
    assert facts(type="unpause").silence == "Without an answer it does not happen."


def test_a_rule_that_finds_something_irreversible_knows_more_than_the_type() -> None:
    by_rule = facts(verdicts=[{"rule": "gate.irreversible:submit", "reason": "r"}])
    beside = facts(verdicts=[{"rule": "gate.shell:x", "also": ["gate.irreversible:y"]}])

    assert facts().undoing == "reversible"
    assert by_rule.undoing == beside.undoing == "irreversible"


@pytest.mark.parametrize(
    ("reversibility", "rules", "said"),
    [
        ("reversible", (), "low, reversible"),
        ("read_only", ("gate.shell:x",), "low, read only"),
        ("unknown", (), "low, nobody knows whether it can be undone"),
        ("irreversible", ("gate.irreversible:x",), "low, irreversible"),
        (
            "read_only",
            ("gate.irreversible:x",),
            "low, irreversible (a rule says so; its type is read only)",
        ),
        ("unknown", ("gate.irreversible:x",), "low, irreversible (a rule says so)"),
    ],
)
def test_danger_says_which_of_it_is_the_types_and_which_a_rules(
    reversibility: str, rules: tuple[str, ...], said: str
) -> None:
    assert danger_by("low", reversibility, rules) == said


def test_of_what_is_no_request_no_danger_is_told() -> None:
    assert danger_of("", "") == ""


@pytest.mark.parametrize(
    ("cost_usd", "amount", "said"),
    [
        (None, "", "not said"),
        (0.0, "$0.00", "$0.00, as the agent says"),
        (12.5, "$12.50", "$12.50, as the agent says"),
        (0.004, "$0.004", "$0.004, as the agent says"),
    ],
)
def test_money_is_told_as_everywhere(cost_usd: float | None, amount: str, said: str) -> None:
    told = facts(proposal={"cost_usd": cost_usd})

    assert (told.cost, told.cost_said) == (amount, said)


def test_what_is_missing_or_repeated_is_said() -> None:
    told = facts(resolved=["/etc/passwd", ""], repeats=3)

    assert told.ends == ("/etc/passwd", "more than anybody could follow")
    assert told.no_rollback == "the agent has no plan for it"
    assert told.again == "proposed 3 more times"
    assert facts(proposal={"rollback": "git revert"}).no_rollback == facts().again == ""


def test_a_lack_of_an_exact_text_leads_up_to_the_description() -> None:
    assert facts().lack == "It gave no exact text."
    assert facts(proposal={"description": "d"}).lack.endswith("The agent describes it as:")
    assert facts(proposal={"text": "t", "description": "d"}).lack == ""


def test_commands_name_the_request_and_what_was_seen_of_it() -> None:
    assert facts().commands == (
        "safetyd approve req_1 --digest 0123456789ab",
        "safetyd deny req_1",
    )


def test_sections_come_in_order_under_their_names_and_leave_nothing_out() -> None:
    proposal = {
        "id": "p1",
        "model": "m",
        "rationale": "because",
        "paths": [],
        "text": "t",
        "wait": True,
    }

    assert list(sections(proposal)) == [
        Section("text", "exact text", "t"),
        Section("rationale", "why", "because"),
        Section("model", "model", "m"),
    ]
    assert [part.field for part in sections(proposal, without=("text",))] == ["rationale", "model"]


def test_time_left_ends_or_does_not() -> None:
    assert time_left("2 h", "14:05") == "2 h left, until 14:05."
    assert time_left("", "") == "It waits without an end."


@pytest.mark.parametrize(
    ("said", "words"),
    [({"text": "t", "description": "d"}, "t"), ({"text": "", "description": "d"}, "d"), ({}, "")],
)
def test_the_exact_text_goes_before_its_description(said: dict[str, str], words: str) -> None:
    assert words_of(said) == words


def part(start: int, end: int, shown: str = "") -> CommandPart:
    return CommandPart("unknown", "x", "does a thing", shown, start, end)


def test_the_parts_of_a_command_are_facts_from_the_engine_and_from_json() -> None:
    queue = QueueStory(CODING)
    asked = queue.asks(0, type="run_shell", text="ls; rm -rf ~/music")
    known = queue.request(asked.request_id)

    view = plain(request(queue.engine, Moment(at(1), 1.0), known.id))["request"]

    assert facts_of(known) == facts_of_card(view)
    assert facts_of(known).part_lines == (
        "`rm -rf ~/music`: deletes ~/music, which lies outside the project",
    )
    assert [each["shown"] for each in view["parts"]] == ["rm -rf ~/music"]


def test_of_many_parts_five_are_told_and_the_rest_is_counted() -> None:
    parts = [msgspec.to_builtins(part(0, 1, f"x{number % 7}")) for number in range(14)]

    lines = facts(verdicts=[{"rule": "gate.shell:unknown", "parts": parts}]).part_lines

    assert lines == (*(f"`x{number}`: does a thing" for number in range(5)), "and 2 more")


def test_parts_are_marked_where_they_stand_in_the_text() -> None:
    assert marked_parts("ä; rm x", [part(4, 8), part(4, 6)]) == [("ä; ", False), ("rm x", True)]
    assert marked_parts("ls", []) == [("ls", False)]


@pytest.mark.parametrize(
    ("text", "found"), [("ls", part(0, 9)), ("ä", part(0, 1)), ("\udc80 x", part(0, 1))]
)
def test_a_text_that_is_not_the_one_that_was_read_is_left_as_it_is(
    text: str, found: CommandPart
) -> None:
    assert marked_parts(text, [found]) == [(text, False)]
