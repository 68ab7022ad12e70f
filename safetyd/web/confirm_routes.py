"""The MCP server that Codex calls before each tool call, to confirm that the daemon allowed it.

It has one tool. The answer is a refusal unless the hook command has sent the same call and the call
was allowed. There are no MCP sessions, so a restart of the daemon interrupts nothing.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import anyio
import msgspec
from aiohttp import web

from safetyd.agents.sender_accounts import OverLimit, Sender, SenderAccounts
from safetyd.hosts.codex_confirmation import PATH, TOOL
from safetyd.hosts.hook_answer import refusal
from safetyd.hosts.tool_call import MAX_WORD
from safetyd.hosts.unasked_calls import UnaskedCalls
from safetyd.web.otlp_routes import TelemetrySender
from safetyd.web.request_room import TooLong, read_body, room_for
from safetyd.web.v1.http_refusals import (
    HttpRefusal,
    json_response,
    refusal_response,
    refuse_other_sites,
)

MAX_BODY_BYTES: Final = 1024 * 1024
ASKED_S: Final = 5.0  # until the hook command asks; it starts at the same time
ANSWERED_S: Final = 600.0
VERSION: Final = "2025-06-18"  # of MCP, if the client names none
UNKNOWN_METHOD: Final = -32601
# The model cannot call the tool, because its visibility does not include `model`.
_TOOL: Final = {
    "name": TOOL,
    "description": "Confirm that safetyd allowed a call.",
    "inputSchema": {"type": "object"},
    "_meta": {"ui": {"visibility": ["app"]}},
}
_KILLED: Final = (
    "safetyd: the hook of this call did not ask: it was killed or could not start, so this call is "
    "blocked. Tell the user."
)
_REFUSED: Final = "safetyd: this call was not allowed. Do not try another way to do the same."


class _Arguments(msgspec.Struct):
    session_id: str = ""
    tool_use_id: str = ""


class _Params(msgspec.Struct):
    arguments: _Arguments = msgspec.field(default_factory=_Arguments)
    protocol_version: str = msgspec.field(default=VERSION, name="protocolVersion")


class _Message(msgspec.Struct):
    method: str = ""
    id: int | str | None = None
    params: _Params = msgspec.field(default_factory=_Params)


_read = msgspec.json.Decoder(_Message).decode
_encode = msgspec.json.Encoder().encode


class ConfirmRoutes:
    """`sender_of` returns the agent of a token for telemetry, or None."""

    def __init__(
        self,
        sender_of: Callable[[str], TelemetrySender | None],
        calls: UnaskedCalls,
        accounts: SenderAccounts,
    ) -> None:
        self._sender_of = sender_of
        self._calls = calls
        self._accounts = accounts

    def routes(self, app: web.Application) -> None:
        app.router.add_post(PATH, self._post)

    def guest(self, request: web.Request) -> str:
        """Return the agent that confirms its calls. Each has its own rate limit."""
        sender = self._sender(request) if request.path == PATH else None
        return sender.account if sender else ""

    def _sender(self, request: web.Request) -> TelemetrySender | None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        return self._sender_of(token.strip()) if scheme.lower() == "bearer" else None

    def _admitted(self, request: web.Request) -> TelemetrySender:
        refuse_other_sites(request)
        if (sender := self._sender(request)) is None:
            raise HttpRefusal("no_token", "a valid token for telemetry is required")
        return sender

    async def _message(self, request: web.Request, sender: TelemetrySender) -> _Message:
        """Return the message of a request, or refuse it."""
        try:
            async with room_for(request, self._accounts, Sender(sender.account)) as room:
                return _read(await read_body(request, room, MAX_BODY_BYTES))
        except OverLimit as exc:
            raise HttpRefusal("rate_limit", str(exc), exc.wait_s) from None
        except (TimeoutError, TooLong, ConnectionError) as exc:
            raise HttpRefusal("invalid", f"the message is too long or too slow: {exc!r}") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise HttpRefusal("invalid", f"no MCP message: {exc}") from None

    async def _post(self, request: web.Request) -> web.Response:
        try:
            sender = self._admitted(request)
            message = await self._message(request, sender)
        except HttpRefusal as exc:
            return refusal_response(exc.refusal)
        if message.id is None:  # a notification
            return web.Response(status=HTTPStatus.ACCEPTED)
        reply = {"jsonrpc": "2.0", "id": message.id, **await self._reply(sender.agent, message)}
        return json_response(_encode(reply))

    async def _reply(self, agent: str, message: _Message) -> dict[str, object]:
        match message.method:
            case "initialize":
                server = {"name": "safetyd", "version": "1"}
                version = message.params.protocol_version
                about = {"capabilities": {"tools": {}}, "serverInfo": server}
                return {"result": {"protocolVersion": version, **about}}
            case "ping":
                return {"result": {}}
            case "tools/list":
                return {"result": {"tools": [_TOOL]}}
            case "tools/call":
                words = await self._refusal(agent, message.params.arguments)
                said = refusal("codex", words).stdout if words else ""
                return {"result": {"content": [{"type": "text", "text": said}]}}
        return {"error": {"code": UNKNOWN_METHOD, "message": "unknown method"}}

    async def _refusal(self, agent: str, said: _Arguments) -> str:
        """Wait for the answer to the hook command; return why the call must not run, if so."""
        key = agent, said.session_id[:MAX_WORD], said.tool_use_id[:MAX_WORD]
        with anyio.move_on_after(ASKED_S):
            await self._calls.until_asked(*key)
        if not self._calls.was_asked(*key):
            return _KILLED
        with anyio.move_on_after(ANSWERED_S):
            return "" if await self._calls.answer(*key) else _REFUSED
        return _REFUSED
