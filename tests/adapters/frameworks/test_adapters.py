"""Every adapter runs only what safetyd allows, with the real framework and a real daemon."""

import re
from collections.abc import AsyncIterator
from typing import Final

import pytest

from safetyd.client import Safety
from tests.adapters.frameworks.agent_tools import Call, RunAgent, Tools
from tests.adapters.frameworks.claude_agent import run_claude_sdk
from tests.adapters.frameworks.langchain_agent import run_langchain
from tests.adapters.frameworks.last_decision import last_outcomes
from tests.adapters.frameworks.openai_agent import run_openai_agents
from tests.adapters.frameworks.pydantic_ai_agent import run_pydantic_ai
from tests.conftest import RunningDaemon, StartDaemon

HARMLESS: Final = Call("run_shell", {"command": "git status"})
HARMFUL: Final = Call("run_shell", {"command": "rm -rf ~"})
PUSH: Final = Call("run_shell", {"command": "git push origin main"})
FAILING: Final = Call("break_down", {"path": "notes.txt"})
PIZZA: Final = Call("order_pizza", {"kind": "Margherita"})

RUNS: Final = {
    "pydantic-ai": run_pydantic_ai,
    "langchain": run_langchain,
    "openai-agents": run_openai_agents,
    "claude-agent-sdk": run_claude_sdk,
}

pytestmark = pytest.mark.anyio


@pytest.fixture(params=RUNS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run(name: str) -> RunAgent:
    return RUNS[name]


@pytest.fixture
def tools() -> Tools:
    return Tools()


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon('profile = "coding"\n')


@pytest.fixture
async def safety(name: str, daemon: RunningDaemon) -> AsyncIterator[Safety]:
    async with Safety(name, data_dir=daemon.data_dir) as safety:
        yield safety


async def test_a_harmless_call_runs_and_its_outcome_is_reported(
    run: RunAgent, name: str, tools: Tools, daemon: RunningDaemon
) -> None:
    async with Safety(name, data_dir=daemon.data_dir) as safety:
        (result,) = await run(safety, tools, [HARMLESS])

    assert tools.ran == ["git status"]
    assert result == "ran git status"
    (outcome,) = last_outcomes(daemon, name)
    assert outcome["ok"] is True


async def test_a_blocked_call_does_not_run_and_the_model_receives_the_reason(
    run: RunAgent, tools: Tools, safety: Safety
) -> None:
    (result,) = await run(safety, tools, [HARMFUL])

    assert tools.ran == []
    assert "home folder" in result
    assert "`safetyd " not in result


async def test_a_call_that_needs_approval_runs_once_it_is_approved(
    run: RunAgent, tools: Tools, safety: Safety, daemon: RunningDaemon
) -> None:
    (refusal,) = await run(safety, tools, [PUSH])
    (request,) = re.findall(r"req_\w+", refusal)
    assert tools.ran == []

    assert daemon.safetyd("approve", request).returncode == 0
    approved, again = await run(safety, tools, [PUSH], [PUSH])

    assert tools.ran == ["git push origin main"]
    assert approved == "ran git push origin main"
    assert request not in again


async def test_the_failure_of_a_tool_is_reported(
    run: RunAgent, name: str, tools: Tools, daemon: RunningDaemon
) -> None:
    async with Safety(name, data_dir=daemon.data_dir) as safety:
        await run(safety, tools, [FAILING], types={"break_down": "read_file"})

    assert tools.ran == ["notes.txt"]
    (outcome,) = last_outcomes(daemon, name)
    # For Claude Code, the error of a tool is a result that its model reads.
    assert outcome["ok"] is (name == "claude-agent-sdk")


async def test_a_tool_without_a_known_type_needs_approval_and_an_option_names_its_type(
    run: RunAgent, tools: Tools, safety: Safety
) -> None:
    (refusal,) = await run(safety, tools, [PIZZA])
    assert "req_" in refusal
    assert tools.ran == []

    await run(safety, tools, [PIZZA], types={"order_pizza": "web_search"})
    assert tools.ran == ["Margherita"]


async def test_each_of_several_calls_at_the_same_time_is_judged(
    run: RunAgent, tools: Tools, safety: Safety
) -> None:
    files = [Call("read_file", {"path": f"{number}.txt"}) for number in range(3)]

    first, harmful, *others = await run(safety, tools, [files[0], HARMFUL, *files[1:]])

    assert sorted(tools.ran) == ["0.txt", "1.txt", "2.txt"]
    assert "home folder" in harmful
    assert [first, *others] == [f"content of {number}.txt" for number in range(3)]


async def test_nothing_runs_while_the_daemon_is_away(
    run: RunAgent, name: str, tools: Tools, start_daemon: StartDaemon
) -> None:
    daemon = start_daemon()
    daemon.stop()

    async with Safety(name, data_dir=daemon.data_dir) as safety:
        (result,) = await run(safety, tools, [HARMLESS])

    assert tools.ran == []
    assert "not allowed" in result
