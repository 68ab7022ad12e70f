"""Hooks over HTTP, for hosts that cannot run a command. The answer is JSON in the host's format.

A token identifies the agent. Many hosts run the tool call if a hook returns an HTTP error, so a
refusal has status 200.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final

import anyio
import msgspec
from aiohttp import web

from safetyd.hosts.hook_answer import HookAnswer, for_agents
from safetyd.hosts.hook_event import Dialect, HookKind
from safetyd.web.hook_socket import (
    ASKING,
    MAX_BODY_BYTES,
    HookCall,
    HookService,
    HookSocket,
    not_answered,
)
from safetyd.web.v1.http_refusals import HttpRefusal, json_response

HOOKS: Final = "/hooks/v1/{dialect}"
BODY_S: Final = 5.0
HTTP_DIALECTS: Final[frozenset[Dialect]] = frozenset({"claude", "codex", "copilot", "gemini"})
# The names of events in the bodies. Any other event is answered as a tool call.
KINDS: Final[Mapping[str, HookKind]] = {
    "PermissionRequest": "permission",
    "permissionRequest": "permission",
    "PermissionDenied": "denied",
    "PostToolUse": "after",
    "PostToolUseFailure": "after",
    "AfterTool": "after",
    "SessionStart": "start",
    "SessionEnd": "end",
}


Admitted = Callable[[web.Request], AbstractContextManager[str]]


class _Named(msgspec.Struct):
    hook_event_name: str = ""
    hookName: str = ""  # noqa: N815 - Copilot names it so


_read_name = msgspec.json.Decoder(_Named).decode


class HookRoutes:
    """`admitted` identifies the agent of a request by its token, or refuses the request."""

    def __init__(self, hooks: HookSocket, service: HookService, admitted: Admitted) -> None:
        self._hooks = hooks
        self._service = service
        self._admitted = admitted

    def routes(self, app: web.Application) -> None:
        app.router.add_post(HOOKS, self._post)

    async def _post(self, request: web.Request) -> web.Response:
        dialect = request.match_info["dialect"]
        if dialect not in HTTP_DIALECTS:
            names = ", ".join(sorted(HTTP_DIALECTS))
            return web.Response(status=404, text=f"unknown hook: use one of {names}\n")
        try:
            body = await _body(request)
        except (TimeoutError, ConnectionError):
            return _response(not_answered(dialect, "before", "the event did not arrive in time"))
        kind = _kind(body)
        try:
            with self._admitted(request) as agent:
                call = HookCall(agent, dialect, kind, None, self._service)
                return _response(await self._answer(call, body))
        except HttpRefusal as exc:
            return _response(not_answered(dialect, kind, for_agents(str(exc))))

    async def _answer(self, call: HookCall, body: bytes) -> HookAnswer:
        if len(body) > MAX_BODY_BYTES:
            why = f"the event has more than {MAX_BODY_BYTES} bytes"
            return not_answered(call.dialect, call.kind, why)
        if call.kind not in ASKING:
            return self._hooks.report(call, body)
        return await self._hooks.answer(call, body)


async def _body(request: web.Request) -> bytes:
    """Return the body. If it is too long, return only enough for it to be refused."""
    body = bytearray()
    with anyio.fail_after(BODY_S):
        while len(body) <= MAX_BODY_BYTES and (chunk := await request.content.readany()):
            body += chunk
    return bytes(body)


def _kind(body: bytes) -> HookKind:
    """Return the kind of an event. An event without a known name counts as a tool call."""
    try:
        named = _read_name(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "before"
    return KINDS.get(named.hook_event_name or named.hookName, "before")


def _response(answer: HookAnswer) -> web.Response:
    """Return the output of a hook as JSON. An empty output becomes an empty object."""
    return json_response(answer.stdout.encode() or b"{}")
