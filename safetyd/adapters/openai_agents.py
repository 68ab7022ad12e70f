"""Guard the tools of an agent of the OpenAI Agents SDK: `guarded(agent, safety)`."""

import functools
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, TypeVar, Unpack

from safetyd.adapters.guarded_run import run
from safetyd.adapters.tool_proposals import Settings, ToolProposals, required
from safetyd.client import Blocked, Safety
from safetyd.hosts.hook_answer import words_for

with required("openai-agents"):
    from agents import FunctionTool, Handoff
    from agents.agent import AgentBase
    from agents.tool_context import ToolContext

A = TypeVar("A", bound=AgentBase[Any])

GUARD: Final = "__safetyd__"  # marks functions that are guarded
ERROR: Final = "_function_tool_default_failure_handled"  # the SDK's mark: the result is an error


def guarded(agent: A, safety: Safety, **settings: Unpack[Settings]) -> A:
    """Guard an agent, and every agent that it can reach, in place. Return the agent.

    Raises `Unguardable` for tools that are not function tools, and for MCP servers. An agent that
    is already guarded is not changed.
    """
    _Guard(safety, ToolProposals(settings)).cover(agent, set())
    return agent


class _Guard:
    def __init__(self, safety: Safety, proposals: ToolProposals) -> None:
        self._safety = safety
        self._proposals = proposals

    def cover(self, agent: Any, seen: set[int]) -> None:
        """Guard the tools of an agent, and of agents that it hands over to or has as tools."""
        if id(agent) in seen or getattr(agent, GUARD, self) is not self:
            return
        seen.add(id(agent))
        others = {tool.name for tool in agent.tools if not isinstance(tool, FunctionTool)}
        self._proposals.check(others | {server.name for server in agent.mcp_servers})
        if not hasattr(agent, GUARD):
            agent.__class__ = self._kind(type(agent))
        if any(not _is_guarded(tool) for tool in agent.tools):
            agent.tools = [self._tool(tool) for tool in agent.tools]
        reached = [getattr(tool, "_agent_instance", None) for tool in agent.tools]
        for other in (*reached, *agent.handoffs):
            if isinstance(other, AgentBase):
                self.cover(other, seen)
            elif isinstance(other, Handoff) and not hasattr(other.on_invoke_handoff, GUARD):
                other.on_invoke_handoff = self._handoff(other.on_invoke_handoff)

    def _kind(self, kind: Any) -> Any:
        """Return a class whose agents, and their copies, guard tools that are added later."""

        async def get_all_tools(agent: Any, run_context: Any) -> Any:
            self.cover(agent, set())
            return await kind.get_all_tools(agent, run_context)

        return type(kind.__name__, (kind,), {GUARD: self, "get_all_tools": get_all_tools})

    def _tool(self, tool: Any) -> Any:
        if _is_guarded(tool):
            return tool

        @functools.wraps(tool.on_invoke_tool)
        async def invoke(ctx: ToolContext[Any], arguments: str) -> Any:
            proposal = self._proposals.of_call(tool.name, _read(arguments))
            call = functools.partial(tool.on_invoke_tool, ctx, arguments)
            try:
                return await run(self._safety, proposal, call, is_error=lambda _: _failed(ctx))
            except Blocked as blocked:
                return words_for(blocked.decision)

        setattr(invoke, GUARD, self)
        return replace(tool, on_invoke_tool=invoke)

    def _handoff(self, hand_over: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @functools.wraps(hand_over)
        async def invoke(*arguments: Any) -> Any:
            agent = await hand_over(*arguments)
            self.cover(agent, set())
            return agent

        setattr(invoke, GUARD, self)
        return invoke


def _is_guarded(tool: Any) -> bool:
    return not isinstance(tool, FunctionTool) or hasattr(tool.on_invoke_tool, GUARD)


def _failed(ctx: Any) -> bool:
    return bool(getattr(ctx, ERROR, False))


def _read(arguments: str) -> dict[str, object]:
    try:
        given = json.loads(arguments or "{}")
    except ValueError:
        given = arguments
    return given if isinstance(given, dict) else {"arguments": given}
