"""Calls without an id are matched with their reports, and forgotten in time."""

from safetyd.hosts.hook_event import HookEvent
from safetyd.hosts.unnamed_calls import MAX_OPEN, UnnamedCalls


def call(command: str = "ls", session: str = "s1") -> HookEvent:
    return HookEvent(session_id=session, tool_name="bash", tool_input={"command": command})


def opened(calls: UnnamedCalls, event: HookEvent) -> str:
    assert calls.name(event)
    calls.add("me", event)
    return event.tool_use_id


def matched(calls: UnnamedCalls, event: HookEvent, agent: str = "me") -> str:
    calls.match(agent, event)
    return event.tool_use_id


def test_a_report_belongs_to_the_oldest_open_call_of_its_agent_session_tool_and_arguments() -> None:
    calls = UnnamedCalls()
    first, other, second = (opened(calls, one) for one in (call(), call("pwd"), call()))

    assert matched(calls, call(), "another agent") == matched(calls, call(session="s2")) == ""
    assert [matched(calls, call()) for _ in range(3)] == [first, second, ""]
    assert matched(calls, call("pwd")) == other


def test_an_id_of_the_host_stays() -> None:
    calls, named = UnnamedCalls(), HookEvent(tool_name="bash", tool_use_id="toolu_1")

    assert not calls.name(named)
    assert matched(calls, named) == "toolu_1"


def test_calls_of_ended_sessions_and_the_oldest_of_too_many_are_forgotten() -> None:
    calls = UnnamedCalls()
    opened(calls, call())
    kept = opened(calls, call(session="s2"))
    calls.end("me", "s1")
    assert matched(calls, call()) == ""
    assert matched(calls, call(session="s2")) == kept

    ids = [opened(calls, call(str(number))) for number in range(MAX_OPEN + 1)]
    assert matched(calls, call("0")) == ""
    assert matched(calls, call("1")) == ids[1]
