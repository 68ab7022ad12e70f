"""What a host reports after a tool call, and about its sessions, as telemetry.

A failed command or edit is a result for the model to read, not a failure of the agent.
"""

import re
from typing import Final

from safetyd.core.messages.telemetry import HOST_DENIED
from safetyd.hosts.hook_event import HookEvent, HookKind
from safetyd.hosts.tool_call import MAX_WORD, Fields, call_id

MAX_ERROR: Final = 1000

_EXIT_CODE: Final = re.compile(r"[Ee]xit code:? (\d+)")


def telemetry_fields(kind: HookKind, event: HookEvent) -> Fields | None:
    """Return the telemetry for a report, or None if there is nothing to report."""
    session = event.session_id[:MAX_WORD]
    if kind == "start":
        return {"type": "session_started", "session": session} if session else None
    if kind == "end":
        return {"type": "session_ended", "session": session} if session else None
    id_ = call_id(event)
    if id_ is None:
        return None
    return {
        "type": "outcome",
        "id": id_,
        "ok": True,  # the agent did nothing wrong, even if its host refused the call
        **({} if event.duration_ms is None else {"latency_ms": max(0.0, event.duration_ms)}),
        **_details(kind, event),
    }


def _details(kind: HookKind, event: HookEvent) -> Fields:
    if kind == "denied":
        return {"details": {HOST_DENIED: (event.reason or "no reason given")[:MAX_ERROR]}}
    if event.is_interrupt:
        return {"details": {"interrupted": True}}
    if not event.error:
        return {}
    code = _EXIT_CODE.search(event.error)
    if code is not None:
        return {"details": {"exit_code": int(code[1])}}
    return {"details": {"tool_error": event.error[:MAX_ERROR]}}
