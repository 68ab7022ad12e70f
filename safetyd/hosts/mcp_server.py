"""The MCP server of `safetyd mcp`: tools with which an agent asks for permission.

No tool answers a request, and none uses elicitation, which is no longer part of MCP 2026-07-28.
"""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import anyio
import msgspec
from mcp.server.mcpserver import MCPServer

from safetyd import __version__
from safetyd.client import PermissionResult, Queued, Safety, Timeout
from safetyd.client.draft import new_id
from safetyd.clock import Clock
from safetyd.core.messages.proposal import Urgency
from safetyd.hosts.call_clearance import CallClearance
from safetyd.hosts.hook_answer import for_agents, words_for
from safetyd.hosts.hook_event import HookEvent
from safetyd.hosts.tool_call import proposal_fields

NAME: Final = "safetyd"
INSTRUCTIONS: Final = (
    "safetyd decides which actions may run. Use request_permission before an action that an "
    "operator should approve, and permission_status to get the answer. Use check to learn whether "
    "an action would be allowed."
)


class PermissionServer:
    """The MCP tools for one agent. `wait_s` is how long a call waits for an operator.

    It does not wait if nobody can be notified in that time, unless `wait_if_unreachable` is set.
    """

    def __init__(self, safety: Safety, wait_s: float, *, wait_if_unreachable: bool = False) -> None:
        self._safety = safety
        self._wait_s = wait_s
        self._wait_if_unreachable = wait_if_unreachable
        self._clearance = CallClearance(safety, wait_s, wait_if_unreachable=wait_if_unreachable)
        self._session = new_id()
        self._clock = Clock()

    async def serve(self) -> None:
        """Serve on standard input and output until the client leaves."""
        server = MCPServer(
            NAME, version=__version__, instructions=INSTRUCTIONS, log_level="WARNING"
        )
        for tool in (self.request_permission, self.permission_status, self.check):
            server.add_tool(tool)
        server.add_tool(self.approve, structured_output=False)
        await server.run_stdio_async()

    async def request_permission(
        self,
        action: str,
        description: str,
        rationale: str,
        urgency: Urgency = "normal",
        wait: bool = False,  # noqa: FBT001, FBT002 - an argument of the tool
        context: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Ask an operator to approve an action before you do it.

        action is its type, such as run_shell, push or send_email. Put the exact action into
        context, for example {"text": "git push origin main"} or {"paths": ["a.txt"]}. With wait,
        the call waits a short time for the answer. If the result has queued, continue with other
        work and look again with permission_status. Act only if approved is true, and only once.
        """
        id_ = new_id()
        result = await self._safety.request_permission(
            action,
            id=id_,
            description=description,
            rationale=rationale,
            urgency=urgency,
            context=context,
        )
        if wait and isinstance(result, Queued) and self._answerable(result):
            result = await self._safety.answered(
                result.request_id, timeout_s=self._wait_s, proposal=id_
            )
        return _as_result(result)

    def _answerable(self, queued: Queued) -> bool:
        """Return whether it is useful to wait: whether somebody can be notified in that time."""
        reachable = queued.reachable_from
        if reachable is None or self._wait_if_unreachable:
            return True
        return reachable < self._clock.now().at + timedelta(seconds=self._wait_s)

    async def permission_status(self, request_id: str) -> dict[str, Any]:
        """Return whether a request was approved, denied or is still queued."""
        return _as_result(await self._safety.permission(request_id))

    async def check(self, action: str, text: str = "", paths: Sequence[str] = ()) -> dict[str, Any]:
        """Return whether an action would be allowed now. Nothing runs and nobody is asked.

        text is exactly what would be executed, typed or sent. decision is allow,
        require_confirmation or block.
        """
        decision = await self._safety.propose(action, text=text, paths=paths, dry_run=True)
        return {
            "decision": decision.decision.value,
            "reason": for_agents(decision.reason),
            "cause": decision.cause,
            "triggered_rules": list(decision.triggered_rules),
        }

    async def approve(
        self,
        tool_name: str,
        input: dict[str, Any],  # noqa: A002 - the name that Claude Code uses
        tool_use_id: str = "",
    ) -> str:
        """Decide about a tool call of Claude Code, for its option --permission-prompt-tool."""
        decision = await self._clearance.decide(
            self._fields(tool_name, input, tool_use_id), anyio.CancelScope()
        )
        if not decision.allowed:
            return _encoded({"behavior": "deny", "message": words_for(decision)})
        await self._safety.unreported(decision.id)
        return _encoded({"behavior": "allow", "updatedInput": input})

    def _fields(self, tool_name: str, given: Mapping[str, Any], tool_use_id: str) -> dict[str, Any]:
        event = HookEvent(
            session_id=self._session,
            cwd=os.getcwd(),  # noqa: PTH109 - a text is needed
            tool_name=tool_name,
            tool_input=dict(given),
            tool_use_id=tool_use_id,
        )
        fields = proposal_fields("claude", event, None)
        # A proposal that uses an approval needs a new id, and `CallClearance` does the waiting.
        return {name: value for name, value in fields.items() if name not in {"id", "wait"}}


def _as_result(result: PermissionResult) -> dict[str, Any]:
    """Return a result with the fields that it has in the protocol."""
    said: dict[str, Any] = msgspec.to_builtins(result)
    if isinstance(result, Queued):
        return {"queued": True, **{name: value for name, value in said.items() if value}}
    if isinstance(result, Timeout):
        said |= {"reason": "timeout", "cause": "expired_no_response"}
    return {"approved": result.approved, **said}


def _encoded(answer: Mapping[str, object]) -> str:
    return json.dumps(answer, ensure_ascii=False)
