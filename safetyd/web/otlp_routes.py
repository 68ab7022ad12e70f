"""Receives the telemetry of coding agents (OTLP as JSON): costs, and unasked tool calls.

A tool call is unasked if it ran although safetyd had not allowed it. Bodies contain prompts. They
are parsed by `hosts/otlp_records.py` and then dropped: they never reach the journal, the log or an
error.
"""

import zlib
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, cast, get_args

import anyio
import msgspec
from aiohttp import web

from safetyd.agents.pricing import load_known_prices
from safetyd.agents.sender_accounts import OverLimit, RequestRoom, Sender, SenderAccounts
from safetyd.clock import uptime
from safetyd.core.events.guard_events import HostUnasked
from safetyd.core.messages.telemetry import Noted
from safetyd.hosts.hosts_config import HostsConfig
from safetyd.hosts.otlp_records import (
    ModelCall,
    NotOtlp,
    Signal,
    ToolRun,
    found_in,
    outcome_fields,
)
from safetyd.hosts.unasked_calls import Unasked, UnaskedCalls
from safetyd.journal.mailbox import Mailbox
from safetyd.web.hook_socket import HookService
from safetyd.web.request_room import TooLong, read_body, room_for
from safetyd.web.v1.http_refusals import (
    HttpRefusal,
    json_response,
    refusal_response,
    refuse_other_sites,
)

PATHS: Final = ("/otlp/v1/{signal}", "/otlp/t/{token}/v1/{signal}")
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
MAX_SEEN: Final = 20_000  # model calls that are recognised if they are sent again
JSON: Final = "application/json"
AS_JSON: Final = (
    "send OTLP as JSON: set OTEL_EXPORTER_OTLP_PROTOCOL=http/json, or for Codex "
    'protocol = "json" in [otel]'
)

_GZIP: Final = 16 + zlib.MAX_WBITS
_encode = msgspec.json.Encoder().encode


class TelemetrySender(NamedTuple):
    """The agent of a token. If `protected`, the token was issued with a hook that asks."""

    agent: str
    service: HookService
    protected: bool

    @property
    def account(self) -> str:
        return f"telemetry:{self.agent}"


class OtlpRoutes:
    """`sender_of` returns the agent of a token, or None."""

    def __init__(
        self,
        config: Callable[[], HostsConfig],
        sender_of: Callable[[str], TelemetrySender | None],
        calls: UnaskedCalls,
        mailbox: Mailbox,
        accounts: SenderAccounts,
    ) -> None:
        self._config = config
        self._sender_of = sender_of
        self._calls = calls
        self._mailbox = mailbox
        self._accounts = accounts
        self._arrived = anyio.Event()
        self._seen: dict[tuple[str, ModelCall], None] = {}
        self._priced = False  # True: the prices are loaded

    def routes(self, app: web.Application) -> None:
        for path in PATHS:
            app.router.add_post(path, self._answered(self._receive))

    def guest(self, request: web.Request) -> str:
        """Return the account of the agent that sends telemetry."""
        if not request.path.startswith("/otlp/"):
            return ""
        sender = self._sender_of(_token(request))
        return sender.account if sender else ""

    async def run(self) -> None:
        """Record unasked tool calls, forever."""
        while True:
            if (due_t := self._calls.due_t) is None:
                self._arrived = anyio.Event()
                await self._arrived.wait()
                continue
            await anyio.sleep(max(0.0, due_t - uptime()))
            for unasked in self._calls.due(uptime()):
                self._record(unasked)

    def _answered(
        self, handler: Callable[[web.Request], Awaitable[None]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answered(request: web.Request) -> web.Response:
            try:
                await handler(request)
            except HttpRefusal as exc:
                return refusal_response(exc.refusal)
            return json_response(b"{}")

        return answered

    async def _receive(self, request: web.Request) -> None:
        refuse_other_sites(request)
        signal = request.match_info["signal"]
        if signal not in get_args(Signal):
            raise HttpRefusal("not_found", f"{signal!r} is not one of logs, metrics, traces")
        sender = self._sender_of(_token(request))
        if sender is None:
            make = "to get one, run `safetyd protect`"
            raise HttpRefusal("no_token", f"a valid token for telemetry is required; {make}")
        if request.content_type != JSON:
            raise HttpRefusal("unsupported_media_type", AS_JSON)
        found = await self._found(request, cast("Signal", signal), sender)
        for run in found:
            if isinstance(run, ToolRun):
                self._ran(sender, run)
        spent = [call for call in found if isinstance(call, ModelCall)]
        if not spent or self._config().money == "ignore":
            return
        await self._load_prices()
        for call in spent:
            self._spent(sender, call)

    async def _load_prices(self) -> None:
        """Load the prices once, in another thread, so that decisions do not wait for them."""
        if not self._priced:
            await anyio.to_thread.run_sync(load_known_prices)
            self._priced = True

    async def _found(
        self, request: web.Request, signal: Signal, sender: TelemetrySender
    ) -> list[ModelCall | ToolRun]:
        """Read the body and return what it says, or refuse it."""
        try:
            async with room_for(request, self._accounts, Sender(sender.account)) as room:
                return list(found_in(signal, await _body(request, room)))
        except NotOtlp as exc:
            raise HttpRefusal("invalid", str(exc)) from None
        except OverLimit as exc:
            raise HttpRefusal("rate_limit", str(exc), exc.wait_s) from None

    def _ran(self, sender: TelemetrySender, run: ToolRun) -> None:
        if sender.protected or self._calls.has_asked(sender.agent):
            self.ran(sender.agent, run)

    def ran(self, agent: str, run: ToolRun) -> None:
        """Compare a tool that ran with what safetyd allowed."""
        self._calls.ran(agent, run, uptime())
        self._arrived.set()

    def _spent(self, sender: TelemetrySender, call: ModelCall) -> None:
        """Report a model call once, however often it is sent."""
        key = sender.agent, call
        if key in self._seen:
            return
        service, subject = sender.service, b"otlp." + sender.agent.encode()
        with service.replies.awaited() as reply:
            said = _encode(outcome_fields(call))
            service.agents.telemetry(subject, reply.address, said, call.host)
            # A refusal is already here. A report is answered later, once it is in the journal.
            if isinstance(reply.content, Noted) and reply.content.code in _LATER:
                raise HttpRefusal(_LATER[reply.content.code], reply.content.error)
        self._seen[key] = None
        if len(self._seen) > MAX_SEEN:
            del self._seen[next(iter(self._seen))]

    def _record(self, unasked: Unasked) -> None:
        self._mailbox.record(
            lambda moment: HostUnasked(
                at=moment.at,
                t=moment.t,
                agent=unasked.agent,
                host=unasked.host,
                tools=unasked.tools,
                calls=unasked.calls,
                session=unasked.session,
                refused=unasked.refused,
            )
        )


# Senders retry after these refusals.
_LATER: Final = {"rate_limit": "rate_limit", "unavailable": "unavailable"}


def _token(request: web.Request) -> str:
    """Return the token in the header, or in the path for hosts that cannot set headers."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else request.match_info.get("token", "")


async def _body(request: web.Request, room: RequestRoom) -> bytes:
    """Return the body, decompressed. Room is reserved for all its bytes."""
    try:
        wire = await read_body(request, room, MAX_BODY_BYTES)
    except TooLong:
        raise _too_large() from None
    except (TimeoutError, ConnectionError):
        error = f"the body did not arrive within {room.body_s:g} s"
        raise HttpRefusal("invalid", error) from None
    encoding = request.headers.get("Content-Encoding", "identity").lower()
    if encoding not in {"gzip", "identity"}:
        raise HttpRefusal("unsupported_media_type", f"unknown encoding {encoding!r}: use gzip")
    if encoding == "identity":
        return wire
    body = _unpacked(wire)
    room.reserve(len(body))
    return body


def _unpacked(wire: bytes) -> bytes:
    """Decompress a body, at most up to the limit."""
    unpacking = zlib.decompressobj(_GZIP)
    try:
        body = unpacking.decompress(wire, MAX_BODY_BYTES)
    except zlib.error as exc:
        raise HttpRefusal("invalid", f"the body is not gzip: {exc}") from None
    if unpacking.unconsumed_tail:
        raise _too_large()
    return body


def _too_large() -> HttpRefusal:
    return HttpRefusal("too_large", f"the body has more than {MAX_BODY_BYTES} bytes")
