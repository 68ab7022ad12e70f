"""Compares the tools that ran with the calls that hooks reported before."""

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


def test_a_tool_is_unasked_only_after_ten_seconds_without_its_question() -> None:
    calls = UnaskedCalls(START)
    calls.ran("a", run("c1"), 5.0)
    calls.ran("a", run("c2"), 6.0)
    calls.asked("a", asked("c2"))

    assert calls.due_t == 5.0 + WAIT_S
    assert unasked(calls, 14.9) == []
    assert unasked(calls, 16.0) == [Unasked("a", "claude", "s", ("Bash",), 1)]
    assert unasked(calls, 99.0) == []


def test_a_question_of_another_agent_or_session_does_not_count() -> None:
    calls = UnaskedCalls(START)
    calls.asked("b", asked("c1"))
    calls.asked("a", asked("c1", session="other"))
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
    calls.asked("a", asked(""))
    calls.asked("a", asked("", tool="Read"))
    for _ in range(3):
        calls.ran("a", run(""), 0.0)
    calls.asked("a", asked(""))

    assert unasked(calls, WAIT_S) == [Unasked("a", "claude", "s", ("Bash",), 1)]
    calls.ran("a", run("", tool="Read"), 20.0)
    assert unasked(calls, 20.0 + WAIT_S) == []
    calls.ran("a", run(""), 40.0)
    assert len(unasked(calls, 40.0 + WAIT_S)) == 1


def test_a_call_from_before_the_start_may_have_been_asked_about() -> None:
    calls = UnaskedCalls(START)
    calls.ran("a", run(began=START - 0.1), 0.0)

    assert calls.due_t is None


def test_the_oldest_questions_are_forgotten() -> None:
    calls = UnaskedCalls(START)
    calls.asked("a", asked("first"))
    for number in range(MAX_ASKED):
        calls.asked("a", asked(f"c{number}"))
    calls.ran("a", run("first"), 0.0)
    calls.ran("a", run("c0"), 0.0)

    assert [found.calls for found in unasked(calls, WAIT_S)] == [1]
