"""A session of 200 tool calls needs a handful of approvals, and nothing else disturbs it."""

import json
from collections.abc import Iterator
from typing import Final

import pytest

from safetyd.bus.codec import read_proposal, read_telemetry
from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Decided, Proposed, Reported
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import AnomalyFound, Paused, SafeModeEntered
from safetyd.core.events.request_events import Answered
from safetyd.core.host_rules import HostRules
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import ALLOW, ASK
from safetyd.core.policy import Policy
from safetyd.hosts.hook_event import HookEvent
from safetyd.hosts.tool_call import proposal_fields
from safetyd.hosts.tool_report import telemetry_fields
from tests.checkout import ROOT
from tests.story import at

CALLS: Final = 200
MOST: Final = 6  # approvals in a session
SESSIONS: Final = ROOT / "tests/corpus/sessions"
TRADES: Final = {
    "python": "/home/dev/app",
    "web": "/home/dev/shop",
    "infrastructure": "/home/dev/infra",
}


def session(name: str) -> list[tuple[float, HookEvent]]:
    """Return the calls with their times: commands, and what agents do between them."""
    root, calls, t = TRADES[name], list[tuple[float, HookEvent]](), 0.0
    lines = (SESSIONS / f"{name}.jsonl").read_text().splitlines()
    commands = [json.loads(line)["command"] for line in lines]
    for number, command in enumerate(commands):
        t += 6.0
        calls.append((t, _call(root, "Bash", command=command)))
        for tool, arguments in _between(root, number):
            t += 0.3 if tool == "Read" else 2.0
            calls.append((t, _call(root, tool, **arguments)))
    return calls[:CALLS]


def _between(root: str, number: int) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield reads, edits, failing tests and subagents, which read side by side."""
    file = f"{root}/src/module_{number % 7}.py"
    yield "Read", {"file_path": file}
    if number % 3 == 0:
        old, new = f"x = {number}", f"x = {number + 1}"
        yield "Edit", {"file_path": file, "old_string": old, "new_string": new}
        yield "Bash", {"command": "pytest -q"}
    if number % 20 == 5:
        yield "Agent", {"description": "look around", "prompt": "find the callers"}
        yield "Agent", {"description": "look elsewhere", "prompt": "find the tests"}
        for other in range(15):
            yield "Read", {"file_path": f"{root}/src/other_{other}.py"}


def _call(root: str, tool: str, **arguments: object) -> HookEvent:
    return HookEvent(session_id="s1", cwd=root, tool_name=tool, tool_input=arguments)


def played(name: str, policy: Policy | None = None) -> list[Event]:
    """Return what happens if an operator approves each request, and the agent tries again."""
    engine, journal = Engine(policy or Policy()), list[Event]()
    for number, (t, call) in enumerate(session(name)):
        call.tool_use_id = f"toolu_{number}"
        decision, events = engine.decide(_proposed(t, call))
        journal += events
        if decision.status == "pending":
            journal += engine.handle(_approval(t + 0.1, decision))
            call.tool_use_id += "_again"
            decision, events = engine.decide(_proposed(t + 0.1, call))
            journal += events
        if decision.allowed:
            journal += engine.handle(_failing(t + 0.2, call))
    return journal


def _proposed(t: float, call: HookEvent) -> Proposed:
    fields = json.dumps(proposal_fields("claude", call, 1000, call.cwd)).encode()
    proposal, digest = read_proposal("claude-code", fields, "spare")
    return Proposed(
        at=at(t), t=t, agent="claude-code", proposal=proposal, digest=digest, host="claude"
    )


def _approval(t: float, decision: Decision) -> Answered:
    return Answered(
        at=at(t),
        t=t,
        request_id=decision.request_id or "",
        agent=decision.agent,
        id=decision.id,
        answer="approved",
        by="ann",
        via="cli",
    )


def _failing(t: float, call: HookEvent) -> Reported:
    """Return a report in which every command fails, as tests do that an agent works on."""
    call.error = "Exit code 1" if call.tool_name == "Bash" else ""
    telemetry = read_telemetry(json.dumps(telemetry_fields("after", call)).encode())
    return Reported(at=at(t), t=t, agent="claude-code", telemetry=telemetry, host="claude")


@pytest.mark.parametrize("name", TRADES)
def test_a_session_asks_a_handful_of_times_and_nothing_else_disturbs_it(name: str) -> None:
    events = played(name)

    decided = [event for event in events if isinstance(event, Decided)]
    asked = [event.proposal.text for event in decided if event.decision is ASK]
    allowed = [event for event in decided if event.decision is ALLOW]
    blocked = [event for event in decided if event.decision not in {ALLOW, ASK}]
    found = [event for event in events if isinstance(event, AnomalyFound)]

    assert len(allowed) == CALLS
    assert len(asked) <= MOST, asked
    assert [(event.proposal.text, event.verdicts[0].rule) for event in blocked] == []
    assert [event for event in found if event.severity != "low"] == []
    assert not any(isinstance(event, Paused | SafeModeEntered) for event in events)


def test_without_memory_an_operator_is_asked_for_each_call_of_an_unknown_program() -> None:
    def asked(hours: float) -> int:
        policy = Policy(hosts=HostRules(remember_programs_h=hours))
        events = played("infrastructure", policy)
        return sum(isinstance(event, Decided) and event.decision is ASK for event in events)

    assert asked(0) > asked(8)
