"""With LangChain and LangGraph: synchronous calls, errors, interrupts, tools of the provider."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt

from safetyd.adapters.langchain import SafetydMiddleware
from safetyd.adapters.tool_proposals import Unguardable
from safetyd.client import Safety, SyncSafety
from tests.adapters.frameworks.agent_tools import REASON, Call, Tools
from tests.adapters.frameworks.langchain_agent import ScriptedModel, results_in
from tests.adapters.frameworks.last_decision import last_outcomes
from tests.conftest import RunningDaemon, StartDaemon

HARMFUL = Call("run_shell", {"command": "rm -rf ~"})
HARMLESS = Call("run_shell", {"command": "git status"})
FAILING = Call("break_down", {"path": "notes.txt"})

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon('profile = "coding"\n')


@pytest.fixture
async def safety(daemon: RunningDaemon) -> AsyncIterator[Safety]:
    async with Safety("langchain", data_dir=daemon.data_dir) as safety:
        yield safety


@pytest.fixture
def blocking(daemon: RunningDaemon) -> Iterator[SyncSafety]:
    with SyncSafety("langchain-sync", data_dir=daemon.data_dir) as safety:
        yield safety


@pytest.fixture
def tools() -> Tools:
    return Tools()


def sync_tools(tools: Tools) -> list[Any]:
    def run_shell(command: str) -> str:
        """Pretend to run a command."""
        tools.ran.append(command)
        return f"ran {command}"

    return [tool(run_shell)]


def test_synchronous_calls_are_guarded(blocking: SyncSafety, tools: Tools) -> None:
    agent = create_agent(
        ScriptedModel(steps=([HARMLESS, HARMFUL],)),
        tools=sync_tools(tools),
        middleware=[SafetydMiddleware(blocking)],
    )

    ran, refused = results_in(agent.invoke({"messages": "go"})["messages"])

    assert tools.ran == ["git status"]
    assert (ran, "home folder" in refused) == ("ran git status", True)


async def test_a_client_of_the_wrong_kind_runs_nothing(
    safety: Safety, blocking: SyncSafety, tools: Tools
) -> None:
    def agent(client: Safety | SyncSafety) -> Any:
        return create_agent(
            ScriptedModel(steps=([HARMLESS],)),
            tools=sync_tools(tools),
            middleware=[SafetydMiddleware(client)],
        )

    with pytest.raises(TypeError, match="use Safety with ainvoke"):
        await agent(blocking).ainvoke({"messages": "go"})
    with pytest.raises(TypeError, match="invoke a SyncSafety"):
        agent(safety).invoke({"messages": "go"})
    assert tools.ran == []


async def test_an_error_that_a_graph_turns_into_a_message_is_reported(
    daemon: RunningDaemon, tools: Tools
) -> None:
    async with Safety("graph", data_dir=daemon.data_dir) as safety:
        guard = SafetydMiddleware(safety, types={"break_down": "read_file"})
        node = ToolNode(
            [StructuredTool.from_function(coroutine=tools.break_down)],
            handle_tool_errors=True,
            awrap_tool_call=guard.awrap_tool_call,
        )
        graph = StateGraph(MessagesState).add_node("tools", node)
        graph.add_edge(START, "tools").add_edge("tools", END)
        call = {"name": FAILING.tool, "args": FAILING.arguments, "id": "1"}
        asked = {"messages": [AIMessage("", tool_calls=[call])]}
        (result,) = results_in((await graph.compile().ainvoke(asked))["messages"])

    assert REASON in result
    (outcome,) = last_outcomes(daemon, "graph")
    assert outcome["ok"] is False


async def test_an_interrupt_in_a_tool_is_no_failure(daemon: RunningDaemon) -> None:
    async def read_file(path: str) -> str:
        """Ask a person for the content of a file."""
        return str(interrupt(path))

    async with Safety("interrupts", data_dir=daemon.data_dir) as safety:
        agent = create_agent(
            ScriptedModel(steps=([Call("read_file", {"path": "notes.txt"})],)),
            tools=[tool(read_file)],
            middleware=[SafetydMiddleware(safety)],
            checkpointer=InMemorySaver(),
        )
        config: Any = {"configurable": {"thread_id": "1"}}
        await agent.ainvoke({"messages": "go"}, config)
    (outcome,) = last_outcomes(daemon, "interrupts")
    assert outcome["ok"] is True


async def test_tools_that_the_provider_runs_are_refused_by_name(safety: Safety) -> None:
    def agent(**settings: Any) -> Any:
        return create_agent(
            ScriptedModel(steps=()),
            tools=[{"type": "web_search"}],
            middleware=[SafetydMiddleware(safety, **settings)],
        )

    with pytest.raises(Unguardable) as refused:
        await agent().ainvoke({"messages": "go"})

    assert refused.value.tools == ("web_search",)
    assert await agent(unguarded=["web_search"]).ainvoke({"messages": "go"})
