"""Guard the tools of a pydantic-ai agent: `Agent(…, capabilities=[SafetydCapability(safety)])`."""

from typing import Any, Final, Unpack

from safetyd.adapters.guarded_run import run
from safetyd.adapters.tool_proposals import Settings, ToolProposals, required
from safetyd.client import Blocked, Safety
from safetyd.hosts.hook_answer import words_for

with required("pydantic-ai"):
    from pydantic_ai import ApprovalRequired, CallDeferred, ModelRetry, RunContext, ToolReturn
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import SkipToolExecution, ToolRetryError
    from pydantic_ai.models import ModelRequestContext
    from pydantic_core import to_jsonable_python

# Exceptions with which a tool answers the model or hands the call over. They are not failures.
SIGNALS: Final = (ApprovalRequired, CallDeferred, ModelRetry, SkipToolExecution, ToolRetryError)
FINDS_TOOLS: Final = "tool_search"  # the model's own search among the agent's tools


class SafetydCapability(AbstractCapability[Any]):
    """Runs tools of all toolsets, and output functions, only if safetyd allows the call."""

    def __init__(self, safety: Safety, **settings: Unpack[Settings]) -> None:
        self._safety = safety
        self._proposals = ToolProposals(settings)

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],  # noqa: ARG002
        *,
        call: Any,
        tool_def: Any,  # noqa: ARG002
        args: Any,
        handler: Any,
    ) -> Any:
        """Return the tool's result, or the reason why it did not run."""
        try:
            return await self._run(call.tool_name, args, handler)
        except Blocked as blocked:
            request = {"request_id": blocked.decision.request_id}
            return ToolReturn(words_for(blocked.decision), metadata=request)

    async def wrap_output_process(
        self, ctx: RunContext[Any], *, output_context: Any, output: Any, handler: Any
    ) -> Any:
        """Guard output functions. If one is blocked, ask the model to retry, with the reason."""
        if not output_context.has_function:
            return await handler(output)
        if ctx.partial_output:
            return output
        try:
            name = output_context.function_name or "output_function"
            return await self._run(name, output, handler)
        except Blocked as blocked:
            raise ModelRetry(words_for(blocked.decision)) from None

    async def before_model_request(
        self, _ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Refuse tools that the model's provider runs."""
        native = {tool.kind for tool in request_context.model_request_parameters.native_tools}
        self._proposals.check(native - {FINDS_TOOLS})
        return request_context

    async def _run(self, tool: str, args: Any, handler: Any) -> Any:
        given = to_jsonable_python(args, fallback=repr)
        given = given if isinstance(given, dict) else {"output": given}
        proposal = self._proposals.of_call(tool, given)
        return await run(self._safety, proposal, lambda: handler(args), signals=SIGNALS)
