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
from safetyd.clock import uptime
from safetyd.core.events.guard_events import HostUnasked
from safetyd.core.messages.telemetry import Noted
from safetyd.core.token_bucket import Refill, TokenBucket
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
from safetyd.web.v1.http_refusals import (
    HttpRefusal,
    json_response,
    refusal_response,
    refuse_other_sites,
)

PATHS: Final = ("/otlp/v1/{signal}", "/otlp/t/{token}/v1/{signal}")
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
BODY_S: Final = 10.0
MAX_SEEN: Final = 20_000  # model calls that are recognised if they are sent again
JSON: Final = "application/json"
AS_JSON: Final = (
    "send OTLP as JSON: set OTEL_EXPORTER_OTLP_PROTOCOL=http/json, or for Codex "
    'protocol = "json" in [otel]'
)

_BYTES: Final = Refill(MAX_BODY_BYTES / 4, 2 * MAX_BODY_BYTES)  # per agent
_GZIP: Final = 16 + zlib.MAX_WBITS
_encode = msgspec.json.Encoder().encode


class TelemetrySender(NamedTuple):
    """The agent of a token. If `protected`, the token was issued with a hook that asks."""

    agent: str
    service: HookService
    protected: bool


class OtlpRoutes:
    """`sender_of` returns the agent of a token, or None."""

    def __init__(
        self,
        config: Callable[[], HostsConfig],
        sender_of: Callable[[str], TelemetrySender | None],
        calls: UnaskedCalls,
        mailbox: Mailbox,
    ) -> None:
        self._config = config
        self._sender_of = sender_of
        self._calls = calls
        self._mailbox = mailbox
        self._arrived = anyio.Event()
        self._seen: dict[tuple[str, ModelCall], None] = {}
        self._sizes: dict[str, TokenBucket] = {}
        self._priced = False  # True: the prices are loaded

    def routes(self, app: web.Application) -> None:
        for path in PATHS:
            app.router.add_post(path, self._answered(self._receive))

    def guest(self, request: web.Request) -> str:
        """Return the agent that sends telemetry. Each has its own rate limit."""
        if not request.path.startswith("/otlp/"):
            return ""
        sender = self._sender_of(_token(request))
        return f"telemetry {sender.agent}" if sender else ""

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
        body = await self._body(request, sender.agent)
        try:
            found = found_in(cast("Signal", signal), body)
        except NotOtlp as exc:
            raise HttpRefusal("invalid", str(exc)) from None
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

    async def _body(self, request: web.Request, agent: str) -> bytes:
        wire = await _read(request)
        encoding = request.headers.get("Content-Encoding", "identity").lower()
        if encoding not in {"gzip", "identity"}:
            raise HttpRefusal("unsupported_media_type", f"unknown encoding {encoding!r}: use gzip")
        body = _unpacked(wire) if encoding == "gzip" else wire
        if len(self._sizes) > MAX_SEEN:
            self._sizes.clear()
        bucket = self._sizes.setdefault(agent, TokenBucket())
        wait_s = _BYTES.wait_s(_BYTES.fill(bucket, uptime()), len(body))
        if wait_s > 0:
            raise HttpRefusal("rate_limit", f"{agent} sends too much telemetry", wait_s)
        bucket.tokens -= len(body)
        return body

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


async def _read(request: web.Request) -> bytes:
    body = bytearray()
    try:
        with anyio.fail_after(BODY_S):
            while chunk := await request.content.readany():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise _too_large()
    except (TimeoutError, ConnectionError):
        raise HttpRefusal("invalid", f"the body did not arrive within {BODY_S:g} s") from None
    return bytes(body)


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
