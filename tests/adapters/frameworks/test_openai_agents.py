"""With the OpenAI Agents SDK, every agent and tool that can be reached is guarded."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from agents import (
    Agent,
    ApplyPatchTool,
    FunctionTool,
    ShellTool,
    WebSearchTool,
    function_tool,
    handoff,
)
from agents.mcp import MCPServerStdio

from safetyd.adapters.openai_agents import guarded
from safetyd.adapters.tool_proposals import Unguardable
from safetyd.client import Safety
from tests.adapters.frameworks.agent_tools import Call, Tools
from tests.adapters.frameworks.openai_agent import ScriptedModel, results_of
from tests.conftest import StartDaemon

HARMFUL = Call("run_shell", {"command": "rm -rf ~"})

pytestmark = pytest.mark.anyio


@pytest.fixture
async def safety(start_module_daemon: StartDaemon) -> AsyncIterator[Safety]:
    daemon = start_module_daemon('profile = "coding"\n')
    async with Safety("openai", data_dir=daemon.data_dir) as safety:
        yield safety


@pytest.fixture
def tools() -> Tools:
    return Tools()


def agent_of(own: Tools, *steps: list[Call], **more: Any) -> Agent[Any]:
    tools = [function_tool(own.run_shell), *more.pop("tools", ())]
    return Agent(more.pop("name", "code"), model=ScriptedModel(*steps), tools=tools, **more)


async def test_agents_that_are_handed_over_to_are_guarded(safety: Safety, tools: Tools) -> None:
    second = agent_of(tools, [Call("transfer_to_third", {})], name="second")
    third = agent_of(tools, [HARMFUL], name="third")
    first = agent_of(tools, [Call("transfer_to_second", {})], handoffs=[handoff(second)])
    second.handoffs = [third, first]

    *_, result = await results_of(guarded(first, safety))

    assert tools.ran == []
    assert "home folder" in result


async def test_an_agent_that_is_a_tool_of_another_is_guarded(safety: Safety, tools: Tools) -> None:
    inner = agent_of(tools, [HARMFUL], name="inner")
    outer = agent_of(tools, [Call("ask", {"input": "go"})], tools=[inner.as_tool("ask", "Ask")])

    await results_of(guarded(outer, safety, types={"ask": "delegate"}))

    (result,) = await results_of(inner.clone(model=ScriptedModel([HARMFUL])))
    assert tools.ran == []
    assert "home folder" in result


async def test_a_tool_that_is_added_later_is_guarded_also_in_a_copy(
    safety: Safety, tools: Tools
) -> None:
    agent = guarded(Agent("code", model=ScriptedModel([HARMFUL])), safety)
    agent.tools.append(function_tool(tools.run_shell))
    copy = agent.clone(tools=[function_tool(tools.run_shell)], model=ScriptedModel([HARMFUL]))

    results = [*await results_of(agent), *await results_of(copy)]

    assert tools.ran == []
    assert ["home folder" in result for result in results] == [True, True]


async def test_tools_that_are_no_functions_are_refused_by_name(safety: Safety) -> None:
    server = MCPServerStdio({"command": "true"}, name="files")
    tools: list[Any] = [WebSearchTool(), ShellTool(executor=str), ApplyPatchTool(editor=object())]
    agent = Agent("code", tools=tools, mcp_servers=[server])

    with pytest.raises(Unguardable) as refused:
        guarded(agent, safety)

    assert refused.value.tools == ("apply_patch", "files", "shell", "web_search")
    assert guarded(agent, safety, unguarded=refused.value.tools) is agent


async def test_an_unguardable_tool_that_is_added_later_ends_the_run(safety: Safety) -> None:
    agent = guarded(Agent("code", model=ScriptedModel()), safety)
    agent.tools.append(WebSearchTool())

    with pytest.raises(Unguardable):
        await results_of(agent)


async def test_arguments_that_cannot_be_read_are_judged_as_they_are(
    safety: Safety, tools: Tools
) -> None:
    async def invoke(_context: Any, arguments: str) -> str:
        tools.ran.append(arguments)
        return "ran"

    odd = FunctionTool("run_shell", "Run", {}, invoke, strict_json_schema=False)
    agent = guarded(Agent("code", tools=[odd]), safety)
    (tool,) = agent.tools

    assert isinstance(tool, FunctionTool)
    context: Any = None
    assert "home folder" in await tool.on_invoke_tool(context, "rm -rf ~")
    assert tools.ran == []
