"""Hooks over HTTP, for hosts that cannot run a command. The answer is JSON in the host's format.

A token identifies the agent. Many hosts run the tool call if a hook returns an HTTP error, so a
refusal has status 200.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from aiohttp import web

from safetyd.agents.sender_accounts import OverLimit, Sender, SenderAccounts
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
from safetyd.web.http_connection import peer_account
from safetyd.web.request_room import TooLong, read_body, room_for
from safetyd.web.v1.agent_routes import AgentRoutes
from safetyd.web.v1.http_refusals import HttpRefusal, json_response

HOOKS: Final = "/hooks/v1/{dialect}"
# Of an event without a valid token, only as much is read as shows what kind it is.
MAX_UNKNOWN_BYTES: Final = 64 * 1024
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


class _Named(msgspec.Struct):
    hook_event_name: str = ""
    hookName: str = ""  # noqa: N815 - Copilot names it so


_read_name = msgspec.json.Decoder(_Named).decode


class HookRoutes:
    """`agents` identifies the agent of a request by its token, or refuses the request."""

    def __init__(
        self,
        hooks: HookSocket,
        service: HookService,
        agents: AgentRoutes,
        accounts: SenderAccounts,
    ) -> None:
        self._hooks = hooks
        self._service = service
        self._agents = agents
        self._accounts = accounts

    def routes(self, app: web.Application) -> None:
        app.router.add_post(HOOKS, self._post)

    async def _post(self, request: web.Request) -> web.Response:
        dialect = request.match_info["dialect"]
        if dialect not in HTTP_DIALECTS:
            names = ", ".join(sorted(HTTP_DIALECTS))
            return web.Response(status=404, text=f"unknown hook: use one of {names}\n")
        try:
            async with self._agents.admitted(request) as (agent, room):
                body = await read_body(request, room, MAX_BODY_BYTES)
                call = HookCall(agent, dialect, _kind(body), None, self._service, room)
                return _response(await self._answer(call, body))
        except HttpRefusal as exc:
            kind = await self._kind_of_refused(request, exc)
            return _response(not_answered(dialect, kind, for_agents(str(exc))))
        except (OverLimit, TooLong) as exc:
            why = str(exc) or f"the event has more than {MAX_BODY_BYTES} bytes"
            return _response(not_answered(dialect, "before", why))
        except (TimeoutError, ConnectionError):
            return _response(not_answered(dialect, "before", "the event did not arrive in time"))

    async def _answer(self, call: HookCall, body: bytes) -> HookAnswer:
        if call.kind not in ASKING:
            return self._hooks.report(call, body)
        return await self._hooks.answer(call, body)

    async def _kind_of_refused(self, request: web.Request, refused: HttpRefusal) -> HookKind:
        """Return the kind of an event that is refused. A long one counts as a tool call."""
        if refused.refusal.code != "no_token":
            return "before"
        try:
            async with room_for(request, self._accounts, Sender(peer_account(request))) as room:
                return _kind(await read_body(request, room, MAX_UNKNOWN_BYTES))
        except (OverLimit, TooLong, TimeoutError, ConnectionError):
            return "before"


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
