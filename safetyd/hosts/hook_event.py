"""What a host tells its hook: a tool call, its result, or the start or end of a session."""

from typing import Final, Literal

import msgspec

Dialect = Literal["claude", "codex", "copilot", "gemini", "opencode"]
HookKind = Literal["before", "after", "start", "end"]


class HookEvent(msgspec.Struct, kw_only=True, rename=None):
    """The fields that safetyd reads of an event. Hosts send many more."""

    session_id: str = ""
    cwd: str = ""
    tool_name: str = ""
    tool_input: dict[str, object] = {}
    tool_use_id: str = ""
    agent_id: str = ""  # the subagent that makes the call
    model: str = ""
    permission_mode: str = ""
    tool_response: object = None
    error: str = ""
    is_interrupt: bool = False
    duration_ms: float | None = None
    reason: str = ""


class _CopilotEvent(msgspec.Struct, kw_only=True, rename="camel"):
    session_id: str = ""
    cwd: str = ""
    tool_name: str = ""
    tool_args: str | dict[str, object] = ""
    tool_result: object = None
    reason: str = ""


class Unreadable(Exception):
    """The event is not what this host sends; the text says why."""


_read_copilot: Final = msgspec.json.Decoder(_CopilotEvent).decode
_read: Final = msgspec.json.Decoder(HookEvent).decode
_read_object: Final = msgspec.json.Decoder(dict[str, object]).decode


def read_event(dialect: Dialect, kind: HookKind, body: bytes) -> HookEvent:
    """Decode an event; a call without the name of a tool is unreadable."""
    try:
        event = _from_copilot(body) if dialect == "copilot" else _read(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise Unreadable(f"the event of the hook cannot be read: {exc}") from exc
    if kind in {"before", "after"} and not event.tool_name:
        raise Unreadable("the event of the hook names no tool")
    return event


def _from_copilot(body: bytes) -> HookEvent:
    event = _read_copilot(body)
    arguments = event.tool_args
    if isinstance(arguments, str):
        arguments = _read_object(arguments.encode()) if arguments.strip() else {}
    return HookEvent(
        session_id=event.session_id,
        cwd=event.cwd,
        tool_name=event.tool_name,
        tool_input=arguments,
        tool_response=event.tool_result,
        reason=event.reason,
    )
