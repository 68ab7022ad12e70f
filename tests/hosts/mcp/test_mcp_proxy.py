"""The proxy with a real server, the official client and a real daemon, and with hostile peers."""

import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters

from safetyd.core.events.decision_events import Reported
from safetyd.core.messages.telemetry import Outcome
from tests.client.person import Person
from tests.conftest import RunningDaemon, StartDaemon, environment
from tests.hosts.mcp.proxy_process import NOTES, proxied, proxy_command, running
from tests.journeys.agents import until as wait_until
from tests.journeys.audit_record import events
from tests.servers import until

pytestmark = pytest.mark.journey

VERSIONS = {"legacy": "2025-11-25", "2026-07-28": "2026-07-28", "auto": "2026-07-28"}


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


@pytest.fixture
def person(daemon: RunningDaemon) -> Person:
    return Person(daemon)


@asynccontextmanager
async def connected(
    daemon: RunningDaemon, notes: Path, mode: str, agent: str, *options: str
) -> AsyncIterator[Client]:
    command, *arguments = proxy_command(
        [sys.executable, str(NOTES), str(notes)], "--agent", agent, *options
    )
    variables = environment(SAFETYD_DATA_DIR=str(daemon.data_dir))
    server = StdioServerParameters(command=command, args=arguments, env=variables)
    async with Client(server, mode=mode) as client:
        yield client


def outcomes(daemon: RunningDaemon, agent: str) -> list[Outcome]:
    return [
        event.telemetry
        for event in events(daemon.data_dir)
        if isinstance(event, Reported)
        and event.agent == agent
        and isinstance(event.telemetry, Outcome)
    ]


@pytest.mark.parametrize("mode", VERSIONS)
async def test_a_client_uses_a_server_as_if_nothing_were_between(
    daemon: RunningDaemon, tmp_path: Path, mode: str
) -> None:
    seen: list[float] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with connected(daemon, tmp_path / "notes", mode, f"through-{mode}") as client:
        tools = await client.list_tools()
        read = await client.read_resource("notes://all")
        prompt = await client.get_prompt("summarise", {"topic": "tea"})
        found = await client.call_tool("find_slowly", {"steps": 3}, progress_callback=progress)
        wrong = await client.call_tool("get_error", {})
        version = client.protocol_version

    assert version == VERSIONS[mode]
    assert {tool.name for tool in tools.tools} >= {"read_notes", "add_note"}
    assert read.contents
    assert "tea" in str(prompt.messages)
    assert (found.structured_content, found.is_error) == ({"result": "found"}, False)
    assert seen == [1, 2, 3]
    assert wrong.is_error
    await until(lambda: len(outcomes(daemon, f"through-{mode}")) == 2)
    first, second = outcomes(daemon, f"through-{mode}")
    assert (first.ok, second.ok) == (True, True)
    assert "no such note" in str(second.details)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_call_is_held_returned_as_pending_and_runs_once_after_the_approval(
    daemon: RunningDaemon, person: Person, tmp_path: Path, mode: str
) -> None:
    notes, agent = tmp_path / "notes", f"held-{mode}"

    async with connected(daemon, notes, mode, agent, "--wait-s", "0.2") as client:
        pending = await client.call_tool("add_note", {"text": "tea"})
        request = await person.asked(agent)
        card = person.card(request)
        person.approve(request)
        ran = await client.call_tool("add_note", {"text": "tea"})
        again = await client.call_tool("add_note", {"text": "tea"})

    assert pending.is_error
    assert request in str(pending.content)
    assert (ran.is_error, again.is_error) == (False, True)
    assert notes.read_text() == "tea\n"
    assert card["proposal"]["type"] == "mcp_call"
    assert card["proposal"]["text"] == 'notes/add_note {"text": "tea"}'


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_running_call_can_be_cancelled(
    daemon: RunningDaemon, tmp_path: Path, mode: str
) -> None:
    notes, agent = tmp_path / "notes", f"cancelled-{mode}"

    async with connected(daemon, notes, mode, agent) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "find_nothing", {})
            await until(Path(f"{notes}.began").exists)
            tasks.cancel_scope.cancel()
        await until(Path(f"{notes}.cancelled").exists)
        await until(lambda: outcomes(daemon, agent))

    (outcome,) = outcomes(daemon, agent)
    assert "interrupted" in str(outcome.details)


def test_the_answer_to_a_question_of_a_tool_is_part_of_its_call(
    daemon: RunningDaemon, person: Person, tmp_path: Path
) -> None:
    call = {"name": "add_note", "arguments": {"text": "tea"}}
    answered = {**call, "inputResponses": {"sure": {"action": "accept"}}, "requestState": "s"}
    with proxied(
        daemon.data_dir, tmp_path / "record", "--agent", "answers", "--wait-s", "0"
    ) as proxy:
        for id_, params in enumerate((call, answered)):
            proxy.send({"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params})
            assert proxy.result(id_)["isError"]
        texts = {person.card(one["id"])["proposal"]["text"] for one in person.waiting("answers")}

    assert len(texts) == 2
    assert any('"action": "accept"' in text for text in texts)


def test_nothing_hostile_reaches_the_server_or_ends_the_proxy(
    daemon: RunningDaemon, tmp_path: Path
) -> None:
    call = '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add_note"}}'
    hostile = [
        b"\xff\xfe\x00",
        b"{" * 100_000,
        b"\x00" * 100,
        f"[{call}]".encode(),
        call.replace('"id": 1, ', "").encode(),
        call.replace("tools/call", "Tools/Call").encode(),
        call.replace('"method"', '"method": "ping", "Method"').encode(),
        call.replace('"method"', '"Method"').encode(),
        b'{"jsonrpc": "2.0", "id": "unknown", "result": {}}',
        b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {}}}',
        b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}',
        b"x" * (33 * 1024 * 1024),
    ]
    with proxied(daemon.data_dir, tmp_path / "record", "--wait-s", "0") as proxy:
        proxy.write(b"\n".join(hostile) + b"\n\r\n\n")
        proxy.call(2, "get_note")

        assert proxy.text(2) == "ran"
        called = [one for one in proxy.received() if one.get("method") == "tools/call"]
        assert [one["id"] for one in called] == [2]
        assert proxy.leave() == 0
    assert "the server starts" in proxy.errors


def test_a_server_that_misbehaves_neither_ends_the_proxy_nor_answers_a_call_that_waits(
    daemon: RunningDaemon, person: Person
) -> None:
    liar = (
        "import sys; sys.stdout.write('no json\\n[]\\n' + 'x' * (33 << 20) + '\\n');"
        """sys.stdout.write('{"jsonrpc": "2.0", "id": 5, "method": "tools/call"}\\n');"""
        "sys.stdout.flush(); sys.stdin.readline();"
        """print('{"jsonrpc": "2.0", "id": 1, "result": {"content": []}}', flush=True);"""
        """print('{"jsonrpc": "2.0", "id": 2, "result": {}}', flush=True);"""
        "sys.stdin.read()"
    )
    command = proxy_command([sys.executable, "-c", liar], "--agent", "lied-to", "--wait-s", "60")
    with running(daemon.data_dir, command) as proxy:
        proxy.call(1, "add_note")
        wait_until(lambda: person.waiting("lied-to"))
        proxy.send({"jsonrpc": "2.0", "id": 2, "method": "ping"})
        proxy.answer(2)
        (request,) = person.waiting("lied-to")
        person.deny(request["id"], "it lies")

        assert "it lies" in proxy.text(1)


def test_a_server_that_dies_ends_the_proxy_with_its_exit_code_and_its_calls_are_reported(
    daemon: RunningDaemon,
) -> None:
    dies = "import sys; sys.stdin.readline(); sys.exit(7)"
    command = proxy_command([sys.executable, "-c", dies], "--agent", "orphan")
    with running(daemon.data_dir, command) as proxy:
        proxy.call(1, "get_note")

        assert proxy.process.wait(60) == 7
    wait_until(lambda: outcomes(daemon, "orphan"))
    (outcome,) = outcomes(daemon, "orphan")
    assert not outcome.ok


def test_a_signal_ends_the_server_and_the_proxy(daemon: RunningDaemon, tmp_path: Path) -> None:
    with proxied(daemon.data_dir, tmp_path / "record") as proxy:
        proxy.ping("started")
        proxy.process.send_signal(signal.SIGTERM)

        assert proxy.process.wait(60) == 128 + signal.SIGTERM


def test_a_client_that_leaves_gets_the_results_of_calls_that_need_no_approval(
    daemon: RunningDaemon, tmp_path: Path
) -> None:
    with proxied(daemon.data_dir, tmp_path / "record", "--agent", "leaver") as proxy:
        proxy.call(1, "get_note")
        proxy.call(2, "add_note")
        assert proxy.process.stdin is not None
        proxy.process.stdin.close()

        assert proxy.text(1) == "ran"
        assert proxy.result(2)["isError"]
        assert proxy.process.wait(60) == 0
