"""Guard an agent of the Claude Agent SDK: `ClaudeAgentOptions(hooks=hooks(safety))`."""

from typing import Any, Final, Unpack, cast

import msgspec

from safetyd.adapters.tool_proposals import Settings, ToolProposals, required
from safetyd.client import Safety
from safetyd.client.guard_scope import unclaimed
from safetyd.core.messages.decision import Decision
from safetyd.hosts.hook_answer import answer_to
from safetyd.hosts.hook_event import HookEvent
from safetyd.hosts.tool_call import proposal_fields
from safetyd.hosts.tool_report import telemetry_fields

with required("claude-agent-sdk"):
    from claude_agent_sdk import HookContext, HookMatcher

HOOK_S: Final = 660.0
PERSON_S: Final = 600.0  # time for an operator's answer; must be shorter than HOOK_S


def hooks(safety: Safety, **settings: Unpack[Settings]) -> dict[Any, list[HookMatcher]]:
    """Return hooks that let safetyd decide on every tool call, and that report its outcome.

    A hook that fails blocks the call. `text` and `paths` are for tools of MCP servers.
    """
    guard = _Guard(safety, ToolProposals(settings))
    before = HookMatcher(matcher=None, hooks=[guard.before], timeout=HOOK_S, on_failure="block")
    after = HookMatcher(matcher=None, hooks=[guard.after])
    return {"PreToolUse": [before], "PostToolUse": [after], "PostToolUseFailure": [after]}


class _Guard:
    def __init__(self, safety: Safety, proposals: ToolProposals) -> None:
        self._safety = safety
        self._proposals = proposals

    async def before(self, event: Any, _call: str | None, _context: HookContext) -> Any:
        decision = await self._decision(msgspec.convert(event, HookEvent))
        return msgspec.json.decode(answer_to("claude", decision).stdout or "{}")

    async def after(self, event: Any, _call: str | None, _context: HookContext) -> Any:
        report = telemetry_fields("after", msgspec.convert(event, HookEvent)) or {}
        if id_ := report.pop("id", None):
            del report["type"]
            await self._safety.report(str(id_), **cast("Any", report))
        return {}

    async def _decision(self, event: HookEvent) -> Decision:
        fields = {**proposal_fields("claude", event, None), "wait": False, "timeout_s": PERSON_S}
        if self._proposals.names(event.tool_name):
            type_, own = self._proposals.of_call(event.tool_name, event.tool_input)
            fields |= {"type": type_, **own}
        fields |= self._proposals.constant
        decision = await self._safety.propose(str(fields.pop("type")), **cast("Any", fields))
        if not decision.claim_required:
            return decision
        claim = await self._safety.claim(decision)
        return decision if claim.granted else unclaimed(decision, claim)
