"""Questions of real hosts are matched with the calls that they are about.

The files in `recorded/questions/` are what each version sent; see `record_events`.
"""

import json
from pathlib import Path
from typing import Any, Final, cast

import pytest

from safetyd.hosts.hook_event import Dialect, HookEvent, HookKind, read_event
from safetyd.hosts.judged_calls import RECENT_S, JudgedCalls
from safetyd.hosts.prompt_answer import is_for_user
from safetyd.hosts.tool_call import Fields, proposal_fields
from safetyd.hosts.tool_report import telemetry_fields

FOLDER: Final = Path(__file__).parent / "recorded" / "questions"

Recorded = tuple[Dialect, HookKind, HookEvent]


def recorded(name: str) -> list[Recorded]:
    dialect = cast("Dialect", name.partition("-")[0])
    said: list[Any] = [json.loads(line) for line in (FOLDER / name).read_text().splitlines()]
    return [
        (dialect, one["kind"], read_event(dialect, one["kind"], json.dumps(one["event"]).encode()))
        for one in said
    ]


def call_and(kind: HookKind, name: str) -> tuple[Dialect, HookEvent, HookEvent]:
    """Return an event of a kind, and the call before it."""
    events = recorded(name)
    at = next(at for at, event in enumerate(events) if event[1] == kind)
    dialect, before, call = events[at - 1]
    assert before == "before"
    return dialect, call, events[at][2]


def fields_of(dialect: Dialect, event: HookEvent) -> Fields:
    return proposal_fields(dialect, event, 1000)


ASKED: Final = ("claude-2.1.326.jsonl", "codex-0.169.0.jsonl", "copilot-1.0.102.jsonl")
DENIED: Final = ("claude-2.1.197.jsonl", "claude-2.1.326.jsonl")


@pytest.mark.parametrize("name", ASKED)
def test_a_question_gets_the_decision_on_its_call_and_no_other(name: str) -> None:
    dialect, call, question = call_and("permission", name)
    asked, proposed = fields_of(dialect, question), fields_of(dialect, call)
    judged = JudgedCalls()
    judged.add("agent", proposed, "the-call", 100.0)

    assert not is_for_user(dialect, question, asked)
    assert judged.find("agent", asked, 100.0) == {**proposed, "id": "the-call"}
    assert judged.find("agent", asked, 100.0 + RECENT_S + 1) is None
    assert judged.find("other", asked, 100.0) is None
    question.tool_input["command"] = "touch other"
    assert judged.find("agent", fields_of(dialect, question), 100.0) is None
    judged.end("agent", proposed)
    assert judged.find("agent", asked, 100.0) is None


def test_a_question_about_an_edit_shows_the_change() -> None:
    questions = [event for _, kind, event in recorded(ASKED[-1]) if kind == "permission"]
    (edit,) = (fields_of("copilot", event) for event in questions if event.tool_name == "edit")

    assert edit["paths"] == ["/home/me/project/a.txt"]
    context = cast("dict[str, str]", edit["context"])
    assert "+one" in context["diff"]


@pytest.mark.parametrize("name", DENIED)
def test_a_refusal_of_the_host_is_reported_for_its_call(name: str) -> None:
    dialect, call, denied = call_and("denied", name)

    report = telemetry_fields("denied", denied)

    assert denied.reason
    assert report is not None
    assert report["id"] == fields_of(dialect, call)["id"]
    assert (report["ok"], report["details"]) == (True, {"host_denied": denied.reason})


def test_the_oldest_calls_are_forgotten_first() -> None:
    judged = JudgedCalls()
    calls: list[Fields] = [{"type": "run_shell", "text": f"touch {n}"} for n in range(1000)]

    for number, call in enumerate(calls):
        judged.add("agent", call, f"call-{number}", 0.0)

    assert judged.find("agent", calls[0], 0.0) is None
    assert judged.find("agent", calls[-1], 0.0) is not None
