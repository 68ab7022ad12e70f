"""Guard the tools of a LangChain agent: `create_agent(…, middleware=[SafetydMiddleware(safety)])`.

In a LangGraph graph, pass the middleware's methods to `ToolNode` (`safetyd docs frameworks`).
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, Unpack

from safetyd.adapters.guarded_run import Proposal, run, run_blocking
from safetyd.adapters.tool_proposals import Settings, ToolProposals, required
from safetyd.client import Blocked, Safety, SyncSafety
from safetyd.hosts.hook_answer import words_for

with required("langchain"):
    from langchain.agents.middleware import AgentMiddleware, ModelRequest
    from langchain.messages import ToolMessage
    from langgraph.errors import GraphBubbleUp
    from langgraph.prebuilt.tool_node import ToolCallRequest

S = TypeVar("S", Safety, SyncSafety)


class SafetydMiddleware(AgentMiddleware[Any, Any]):
    """Runs a tool only if safetyd allows the call.

    `ainvoke` and `astream` need a `Safety`, `invoke` and `stream` a `SyncSafety`.
    """

    def __init__(self, safety: Safety | SyncSafety, **settings: Unpack[Settings]) -> None:
        super().__init__()
        self._safety = safety
        self._proposals = ToolProposals(settings)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Return the tool's result, or the reason why it did not run."""
        safety, proposal = _as(Safety, self._safety), self._proposal(request)
        try:
            return await run(safety, proposal, lambda: handler(request), **OUTCOME)
        except Blocked as blocked:
            return _refusal(request, blocked)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]
    ) -> Any:
        """Return the tool's result, or the reason why it did not run."""
        safety, proposal = _as(SyncSafety, self._safety), self._proposal(request)
        try:
            return run_blocking(safety, proposal, lambda: handler(request), **OUTCOME)
        except Blocked as blocked:
            return _refusal(request, blocked)

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Any) -> Any:
        """Refuse tools that the model's provider runs."""
        self._proposals.check(_provided(request))
        return await handler(request)

    def wrap_model_call(self, request: ModelRequest[Any], handler: Any) -> Any:
        """Refuse tools that the model's provider runs."""
        self._proposals.check(_provided(request))
        return handler(request)

    def _proposal(self, request: ToolCallRequest) -> Proposal:
        return self._proposals.of_call(request.tool_call["name"], request.tool_call["args"])


def _is_error(result: Any) -> bool:
    return isinstance(result, ToolMessage) and result.status == "error"


def _refusal(request: ToolCallRequest, blocked: Blocked) -> ToolMessage:
    call, decision = request.tool_call, blocked.decision
    return ToolMessage(
        words_for(decision),
        name=call["name"],
        tool_call_id=call["id"],
        status="error",
        artifact={"request_id": decision.request_id, "status": decision.status},
    )


def _provided(request: ModelRequest[Any]) -> set[str]:
    """Return the names of tools that the model's provider runs."""
    provided = (tool for tool in request.tools if isinstance(tool, dict))
    return {str(tool.get("name") or tool.get("type") or "unnamed") for tool in provided}


def _as(kind: type[S], safety: Safety | SyncSafety) -> S:
    if not isinstance(safety, kind):
        use = "use Safety with ainvoke, and SyncSafety with invoke"
        raise TypeError(f"this call needs a {kind.__name__}: {use}")
    return safety


# Errors that a graph turned into messages are failures; interrupts are not.
OUTCOME: Final[Any] = {"signals": (GraphBubbleUp,), "is_error": _is_error}
