"""With pydantic-ai: toolsets, output functions, retries, tools of the provider."""

from collections.abc import AsyncIterator

import pytest
from pydantic_ai import Agent, ModelMessage, ModelResponse, ModelRetry, ToolCallPart
from pydantic_ai.capabilities import NativeTool
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.toolsets import FunctionToolset

from safetyd.adapters.pydantic_ai import SafetydCapability
from safetyd.adapters.tool_proposals import Unguardable
from safetyd.client import Safety
from tests.adapters.frameworks.agent_tools import Call, Tools
from tests.adapters.frameworks.last_decision import last_outcomes
from tests.adapters.frameworks.pydantic_ai_agent import model_of, results_in
from tests.conftest import RunningDaemon, StartDaemon

HARMFUL = Call("run_shell", {"command": "rm -rf ~"})

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon('profile = "coding"\n')


@pytest.fixture
async def safety(daemon: RunningDaemon) -> AsyncIterator[Safety]:
    async with Safety("pydantic", data_dir=daemon.data_dir) as safety:
        yield safety


@pytest.fixture
def tools() -> Tools:
    return Tools()


async def test_tools_of_a_toolset_are_guarded(safety: Safety, tools: Tools) -> None:
    toolset = FunctionToolset([tools.run_shell]).prefixed("own")
    agent = Agent(
        model_of([HARMFUL._replace(tool="own_run_shell")]),
        toolsets=[toolset],
        capabilities=[SafetydCapability(safety, types={"own_run_shell": "run_shell"})],
    )

    (result,) = results_in((await agent.run("go")).all_messages())

    assert tools.ran == []
    assert "home folder" in result


async def test_an_output_function_is_guarded(safety: Safety, tools: Tools) -> None:
    received: list[list[ModelMessage]] = []

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        received.append(messages)
        command = "rm -rf ~" if len(received) == 1 else "git status"
        return ModelResponse([ToolCallPart(info.output_tools[0].name, {"command": command})])

    agent = Agent(
        FunctionModel(reply),
        output_type=tools.run_shell,
        capabilities=[SafetydCapability(safety)],
    )

    ended = await agent.run("go")

    assert (tools.ran, ended.output) == (["git status"], "ran git status")
    assert "home folder" in str(received[1][-1])


async def test_a_retry_that_a_tool_asks_for_is_no_failure(daemon: RunningDaemon) -> None:
    async def read_file(path: str) -> str:
        """Ask for another path."""
        if path == "wrong.txt":
            raise ModelRetry("no such file")
        return "content"

    async with Safety("retries", data_dir=daemon.data_dir) as safety:
        agent = Agent(
            model_of([Call("read_file", {"path": "wrong.txt"})]),
            tools=[read_file],
            capabilities=[SafetydCapability(safety)],
        )
        await agent.run("go")

    (outcome,) = last_outcomes(daemon, "retries")
    assert outcome["ok"] is True


async def test_tools_that_the_provider_runs_are_refused_by_name(safety: Safety) -> None:
    agent = Agent(model_of(), capabilities=[SafetydCapability(safety), NativeTool(WebSearchTool())])

    with pytest.raises(Unguardable) as refused:
        await agent.run("go")

    assert refused.value.tools == ("web_search",)
