"""Turns a host's reports about tool calls and sessions into telemetry.

A failed command is a result for the model to read, not a failure of the agent. So is a failed file
or web tool, unless `tool_errors` is "count".
"""

import math
import re
from typing import Final

from safetyd.core.messages.telemetry import HOST_DENIED
from safetyd.hosts.hook_event import Dialect, HookEvent, HookKind
from safetyd.hosts.otlp_records import ToolRun
from safetyd.hosts.tool_call import MAX_WORD, TOOLS, Fields, call_id

MAX_ERROR: Final = 1000

# Types of tools whose errors can count. Commands and subagents fail for many reasons.
_COUNTED: Final = frozenset(
    {"read_file", "search", "create_file", "edit_file", "delete_file", "web_fetch", "web_search"}
)
_EXIT_CODE: Final = re.compile(r"[Ee]xit code:? (\d+)")


def telemetry_fields(
    kind: HookKind, event: HookEvent, *, count_errors: bool = False
) -> Fields | None:
    """Return the telemetry for a report, or None if there is nothing to report."""
    session = event.session_id[:MAX_WORD]
    if kind == "start":
        return {"type": "session_started", "session": session} if session else None
    if kind == "end":
        return {"type": "session_ended", "session": session} if session else None
    id_ = call_id(event)
    if id_ is None:
        return None
    details = _details(kind, event)
    tool = TOOLS.get(event.tool_name)
    counts = count_errors and tool is not None and tool.type in _COUNTED
    return {
        "type": "outcome",
        "id": id_,
        "ok": not (counts and "tool_error" in details),
        **({} if event.duration_ms is None else {"latency_ms": max(0.0, event.duration_ms)}),
        **({"details": details} if details else {}),
    }


def tool_run(dialect: Dialect, event: HookEvent) -> ToolRun:
    """Return the tool that ran, as its report says. Reports do not say when it began."""
    session, tool, call = event.session_id, event.tool_name, event.tool_use_id
    return ToolRun(dialect, session[:MAX_WORD], tool[:MAX_WORD], call[:MAX_WORD], math.nan)


def _details(kind: HookKind, event: HookEvent) -> Fields:
    if kind == "denied":
        return {HOST_DENIED: (event.reason or "no reason given")[:MAX_ERROR]}
    if event.is_interrupt:
        return {"interrupted": True}
    error = event.error or _error_in(event.tool_response)
    if not error:
        return {}
    code = _EXIT_CODE.search(error)
    if code is not None:
        return {"exit_code": int(code[1])}
    return {"tool_error": error[:MAX_ERROR]}


def _error_in(response: object) -> str:
    """Return the error in a result of Gemini CLI."""
    match response:
        case {"error": {"message": str(message)}}:
            return message
    return ""
