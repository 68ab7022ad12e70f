"""The tools of `safetyd mcp`, with the official client and a real daemon."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

from safetyd.core.events.decision_events import Decided
from tests.client.person import Person
from tests.conftest import RunningDaemon, StartDaemon, environment
from tests.journeys.audit_record import events

pytestmark = pytest.mark.journey

PUSH = {"command": "git push origin main"}


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon("profile = 'coding'\n")


@pytest.fixture
def person(daemon: RunningDaemon) -> Person:
    return Person(daemon)


@asynccontextmanager
async def served(
    data_dir: Path, agent: str, *options: str, mode: str = "auto"
) -> AsyncIterator[Client]:
    start = ["-m", "safetyd", "mcp", "--agent", agent, *options]
    variables = environment(SAFETYD_DATA_DIR=str(data_dir))
    server = StdioServerParameters(command=sys.executable, args=start, env=variables)
    async with Client(server, mode=mode) as client:
        yield client


async def use(client: Client, tool: str, **arguments: Any) -> Any:
    """Call a tool and return its result, which must be JSON in one block of text."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    (block,) = result.content
    return json.loads(block.text)  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_an_agent_asks_for_permission_and_reads_the_answer(
    daemon: RunningDaemon, person: Person, mode: str
) -> None:
    agent = f"asks-{mode}"
    ask = {"action": "push", "description": "Publish", "rationale": "It is due"}
    async with served(daemon.data_dir, agent, mode=mode) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        queued = await use(client, "request_permission", **ask, context={"text": "git push"})
        before = await use(client, "permission_status", request_id=queued["request_id"])
        person.approve(queued["request_id"], "go")
        after = await use(client, "permission_status", request_id=queued["request_id"])

    assert tools == {"request_permission", "permission_status", "check", "approve"}
    assert before == queued == {"queued": True, "request_id": queued["request_id"]}
    assert after == {"approved": True, "message": "go"}


async def test_an_agent_that_waits_gets_the_operators_answer(
    daemon: RunningDaemon, person: Person
) -> None:
    ask = {"action": "push", "description": "Publish", "rationale": "It is due", "wait": True}
    results: list[Any] = []

    async with served(daemon.data_dir, "waits", "--wait-s", "60") as client:

        async def request() -> None:
            results.append(await use(client, "request_permission", **ask))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(request)
            person.deny(await person.asked("waits"), "not today")

    assert results == [{"approved": False, "reason": "not today", "cause": "human_denied"}]


async def test_a_check_asks_nobody(daemon: RunningDaemon, person: Person) -> None:
    async with served(daemon.data_dir, "checks") as client:
        check = partial(use, client, "check")
        allowed = await check(action="run_shell", text="git status", paths=[])
        asked = await check(action="push", text="git push", paths=[])
        blocked = await check(action="change_password", text="x", paths=[])

    found = [one["decision"] for one in (allowed, asked, blocked)]
    assert found == ["allow", "require_confirmation", "block"]
    assert person.waiting("checks") == []
    decided = [one for one in events(daemon.data_dir) if isinstance(one, Decided)]
    assert all(one.proposal.dry_run for one in decided if one.agent == "checks")


async def test_a_tool_call_of_claude_code_is_approved_once(
    daemon: RunningDaemon, person: Person
) -> None:
    async with served(daemon.data_dir, "prompts", "--wait-s", "0") as client:
        approve = partial(use, client, "approve", tool_use_id="toolu_1")
        status = {"command": "git status"}
        harmless = await approve(tool_name="Bash", input=status)
        pending = await approve(tool_name="Bash", input=PUSH)
        request = await person.asked("prompts")
        person.approve(request)
        approved = await approve(tool_name="Bash", input=PUSH)
        again = await approve(tool_name="Bash", input=PUSH)
        unknown = await approve(tool_name="mcp__notes__add_note", input={"text": "tea"})

    assert harmless == {"behavior": "allow", "updatedInput": status}
    assert pending["behavior"] == "deny"
    assert request in pending["message"]
    assert approved == {"behavior": "allow", "updatedInput": PUSH}
    assert again["behavior"] == unknown["behavior"] == "deny"
    texts = [one["proposal"]["text"] for one in map(person.card, ids(person, "prompts"))]
    assert 'notes/add_note {"text": "tea"}' in texts


def ids(person: Person, agent: str) -> list[str]:
    return [str(one["id"]) for one in person.waiting(agent)]


async def test_without_a_daemon_every_tool_says_so_and_nothing_is_allowed(tmp_path: Path) -> None:
    async with served(tmp_path / "none", "alone") as client:
        denied = await use(client, "approve", tool_name="Read", input={}, tool_use_id="")
        checked = await use(client, "check", action="read_file", text="", paths=[])
        asked = await use(client, "request_permission", action="push", description="", rationale="")

    assert denied["behavior"] == "deny"
    assert "endpoint.json" in denied["message"]
    assert (checked["decision"], checked["cause"]) == ("block", "unavailable")
    assert (asked["approved"], asked["cause"]) == (False, "unavailable")
