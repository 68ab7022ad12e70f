"""Compares the tools that ran with the answers to hooks."""

import math

from safetyd.hosts.hook_event import HookEvent
from safetyd.hosts.otlp_records import ToolRun
from safetyd.hosts.unasked_calls import MAX_ASKED, WAIT_S, Unasked, UnaskedCalls

START = 1000.0


def run(
    call: str = "c1", *, session: str = "s", tool: str = "Bash", began: float = START
) -> ToolRun:
    return ToolRun("claude", session, tool, call, began)


def asked(call: str = "c1", *, session: str = "s", tool: str = "Bash") -> HookEvent:
    return HookEvent(session_id=session, tool_name=tool, tool_use_id=call)


def unasked(calls: UnaskedCalls, t: float) -> list[Unasked]:
    return [*calls.due(t)]


def answer(calls: UnaskedCalls, agent: str, event: HookEvent, *, allowed: bool = True) -> None:
    calls.answered(calls.asked(agent, event), allowed=allowed)


def test_a_tool_that_ran_without_an_allow_is_found_within_a_second() -> None:
    calls = UnaskedCalls(START)
    answer(calls, "a", asked("allowed"))
    answer(calls, "a", asked("refused"), allowed=False)
    calls.asked("a", asked("undecided"))
    for call in ("allowed", "refused", "undecided", "never asked"):
        calls.ran("a", run(call), 5.0)

    assert calls.due_t == 5.0 + WAIT_S
    assert WAIT_S < 1
    assert unasked(calls, 5.0) == []
    assert unasked(calls, 6.0) == [Unasked("a", "claude", "s", ("Bash",), 3, 2)]
    assert unasked(calls, 99.0) == []


def test_an_answer_to_another_agent_or_session_does_not_count() -> None:
    calls = UnaskedCalls(START)
    answer(calls, "b", asked("c1"))
    answer(calls, "a", asked("c1", session="other"))
    calls.ran("a", run("c1"), 0.0)

    assert len(unasked(calls, WAIT_S)) == 1
    assert calls.has_asked("b")
    assert not calls.has_asked("c")


def test_tools_of_one_session_are_one_finding() -> None:
    calls = UnaskedCalls(START)
    for number, tool in enumerate(("Bash", "Read", "Bash")):
        calls.ran("a", run(f"c{number}", tool=tool), 0.0)
    calls.ran("a", run("c9", session="other"), 0.0)

    assert unasked(calls, WAIT_S) == [
        Unasked("a", "claude", "s", ("Bash", "Read"), 3),
        Unasked("a", "claude", "other", ("Bash",), 1),
    ]


def test_calls_without_an_id_are_counted() -> None:
    calls = UnaskedCalls(START)
    answer(calls, "a", asked(""))
    answer(calls, "a", asked("", tool="Read"))
    answer(calls, "a", asked(""), allowed=False)
    for _ in range(3):
        calls.ran("a", run(""), 0.0)
    answer(calls, "a", asked(""))

    assert unasked(calls, WAIT_S) == [Unasked("a", "claude", "s", ("Bash",), 1, 1)]
    calls.ran("a", run("", tool="Read"), 20.0)
    assert unasked(calls, 20.0 + WAIT_S) == []
    calls.ran("a", run(""), 40.0)
    assert unasked(calls, 40.0 + WAIT_S) == [Unasked("a", "claude", "s", ("Bash",), 1)]


def test_a_call_from_before_the_start_may_have_been_asked_about() -> None:
    calls = UnaskedCalls(START)
    calls.ran("a", run(began=START - 0.1), 0.0)
    calls.ran("a", run(began=math.nan), 0.0)

    assert calls.due_t is None


def test_a_report_of_a_refused_call_proves_that_it_ran() -> None:
    calls = UnaskedCalls(START)
    answer(calls, "a", asked("c1"), allowed=False)
    calls.ran("a", run("c1", began=math.nan), 0.0)

    assert unasked(calls, WAIT_S) == [Unasked("a", "claude", "s", ("Bash",), 1, 1)]


def test_the_oldest_questions_are_forgotten() -> None:
    calls = UnaskedCalls(START)
    answer(calls, "a", asked("first"))
    for number in range(MAX_ASKED):
        answer(calls, "a", asked(f"c{number}"))
    calls.ran("a", run("first"), 0.0)
    calls.ran("a", run("c0"), 0.0)

    assert [found.calls for found in unasked(calls, WAIT_S)] == [1]
