"""Events that a host passes to its hook: calls, questions, results, starts and ends of sessions."""

import codecs
from typing import Final, Literal

import msgspec

Dialect = Literal["claude", "codex", "copilot", "gemini", "opencode"]
# permission: the host would ask its user. denied: the host itself refused a call.
HookKind = Literal["before", "permission", "denied", "after", "start", "end"]


class HookEvent(msgspec.Struct, kw_only=True):
    """The fields of an event that safetyd reads. Hosts send many more."""

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
    workspace_roots: list[str] = []  # Cursor, which runs the hooks of Claude Code
    safetyd_dry_run: bool = False  # set by trials of `safetyd verify`, never by hosts


class _CopilotEvent(msgspec.Struct, kw_only=True, rename="camel"):
    session_id: str = ""
    cwd: str = ""
    tool_name: str = ""
    tool_args: str | dict[str, object] = ""
    tool_input: dict[str, object] = {}  # instead of `tool_args`, in a question
    tool_result: object = None
    error: object = None  # a text if a tool failed
    agent_id: str = ""
    reason: str = ""
    safetyd_dry_run: bool = False


class Unreadable(Exception):
    """The event is not what this host sends; the text says why."""


_read_copilot: Final = msgspec.json.Decoder(_CopilotEvent).decode
_read: Final = msgspec.json.Decoder(HookEvent).decode
_read_object: Final = msgspec.json.Decoder(dict[str, object]).decode


def read_event(dialect: Dialect, kind: HookKind, body: bytes) -> HookEvent:
    """Decode an event; a call without the name of a tool is unreadable."""
    try:
        body = body.removeprefix(codecs.BOM_UTF8)  # Cursor begins with it
        event = _from_copilot(body) if dialect == "copilot" else _read(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise Unreadable(f"the event of the hook cannot be read: {exc}") from exc
    if kind not in {"start", "end"} and not event.tool_name:
        raise Unreadable("the event of the hook names no tool")
    if not event.cwd and event.workspace_roots:
        event.cwd = event.workspace_roots[0]
    return event


def refuse_key(body: bytes, key: str) -> None:
    """Refuse a call that contains the key which unlocks calls: only the daemon adds it."""
    if key and key.encode() in body:
        raise Unreadable("the call contains the key with which safetyd unlocks calls")


def _from_copilot(body: bytes) -> HookEvent:
    event = _read_copilot(body)
    arguments = event.tool_args
    if isinstance(arguments, str):
        arguments = _read_object(arguments.encode()) if arguments.strip() else {}
    return HookEvent(
        session_id=event.session_id,
        cwd=event.cwd,
        tool_name=event.tool_name,
        tool_input=arguments or event.tool_input,
        tool_response=event.tool_result,
        error=event.error if isinstance(event.error, str) else "",
        agent_id=event.agent_id,
        reason=event.reason,
        safetyd_dry_run=event.safetyd_dry_run,
    )


_SHELLS: Final[dict[Dialect, str]] = {
    "claude": "Bash",
    "codex": "Bash",
    "copilot": "bash",
    "gemini": "run_shell_command",
    "opencode": "bash",
}


def trial_event(dialect: Dialect, command: str, cwd: str) -> bytes:
    """Return the event of a shell command that is judged and never runs."""
    arguments = {"command": command}
    if dialect == "copilot":
        said = msgspec.json.encode(arguments).decode()
        return msgspec.json.encode(
            _CopilotEvent(cwd=cwd, tool_name="bash", tool_args=said, safetyd_dry_run=True)
        )
    event = HookEvent(cwd=cwd, tool_name=_SHELLS[dialect], tool_input=dict(arguments))
    event.safetyd_dry_run = True
    return msgspec.json.encode(event)
