"""The Unix socket that hooks of coding agents connect to.

The answer is a stream of lines, which `safetyd/hook.py` reads. The first line says at once that the
daemon is alive, and so does one every five seconds while an operator is asked. The last line has
the exit code and the sizes of what the hook prints, which follows it.
"""

import logging
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, NamedTuple, cast, get_args

import anyio
import msgspec
from aiohttp import web

from safetyd.agents.agent_service import AgentService
from safetyd.agents.held_replies import HeldReplies
from safetyd.core.host_rules import HostRules
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import is_token
from safetyd.host import SOCKET, Unusable
from safetyd.hosts.hook_answer import HookAnswer, answer_to, refusal
from safetyd.hosts.hook_event import Dialect, HookEvent, HookKind, Unreadable, read_event
from safetyd.hosts.tool_call import proposal_fields
from safetyd.hosts.tool_report import telemetry_fields
from safetyd.web.v1.agent_replies import AwaitedReply, HttpReplies

PATH: Final = "/hooks/v1/{dialect}/{kind}"
MAX_BODY_BYTES: Final = 8 * 1024 * 1024
MAX_PATH_BYTES: Final = 100
ALIVE_S: Final = 5.0
DECIDED_S: Final = 10.0  # a decision that takes longer is a refusal

log = logging.getLogger("safetyd.web")
_encode = msgspec.json.Encoder().encode


class HostsConfig(HostRules, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[hosts]` table: coding agents that `safetyd protect` has set up."""

    socket: str = SOCKET  # relative to the data directory
    # how long a tool call waits for an operator; then the agent continues with other work
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=590)] = 55.0

    def rules(self) -> HostRules:
        """Return the part that the guards use."""
        return HostRules(**{name: getattr(self, name) for name in HostRules.__struct_fields__})


class _Call(NamedTuple):
    agent: str
    nonce: str
    dialect: Dialect
    uid: int | None


class HookSocket:
    """Listens on the socket, and answers the hooks of coding agents."""

    def __init__(
        self,
        config: HostsConfig,
        service: AgentService,
        replies: HttpReplies,
        held: HeldReplies,
        *,
        directory: Path,
        muted: Callable[[], bool],
    ) -> None:
        self._config = config
        self._service = service
        self._replies = replies
        self._held = held
        self._muted = muted
        self.path = directory / config.socket
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        if len(os.fsencode(self.path)) > MAX_PATH_BYTES:
            raise Unusable(
                f"[hosts] socket: {self.path} is too long for a socket; set a shorter path"
            )
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post(PATH, self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        with suppress(FileNotFoundError):
            self.path.unlink()
        await web.UnixSite(self._runner, str(self.path)).start()
        self.path.chmod(0o666)  # anyone may ask

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self.path.unlink(missing_ok=True)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        dialect, kind = request.match_info["dialect"], request.match_info["kind"]
        if dialect not in get_args(Dialect) or kind not in get_args(HookKind):
            return web.Response(status=404, text="unknown hook\n")
        call = _Call(
            request.headers.get("Safetyd-Agent", ""),
            request.headers.get("Safetyd-Nonce", ""),
            cast("Dialect", dialect),
            _uid(request),
        )
        if not is_token(call.agent) or not is_token(call.nonce):
            return web.Response(status=400, text="Safetyd-Agent and Safetyd-Nonce are needed\n")
        body = await request.read()
        if kind != "before":
            # A hook that reports does not wait for the answer, so it may be gone by now.
            self._report(call, cast("HookKind", kind), body)
            return web.Response(body=_alive(call) + _last(call, HookAnswer()))
        response = web.StreamResponse(headers={"Content-Type": "application/x-safetyd-hook"})
        await response.prepare(request)
        async for line in self._lines(call, body):
            await response.write(line)
        return response

    async def _lines(self, call: _Call, body: bytes) -> AsyncIterator[bytes]:
        yield _alive(call)
        try:
            event = read_event(call.dialect, "before", body)
        except Unreadable as exc:
            yield _last(call, refusal(call.dialect, f"safetyd: {exc}, so nothing may run."))
            return
        with self._replies.awaited() as reply:
            self._propose(call, event, reply)
            async for alive in self._while_undecided(call, reply):
                yield alive
        yield _last(call, self._answer_to(call, reply))

    def _propose(self, call: _Call, event: HookEvent, reply: AwaitedReply) -> None:
        fields = proposal_fields(call.dialect, event, call.uid)
        given = {name: value for name, value in fields.items() if value is not None}
        subject = b"hook." + call.agent.encode()
        self._service.propose(subject, reply.address, _encode(given), call.dialect)

    def _report(self, call: _Call, kind: HookKind, body: bytes) -> None:
        with suppress(Unreadable):
            fields = telemetry_fields(kind, read_event(call.dialect, kind, body))
            if fields is not None:
                subject = b"hook." + call.agent.encode()
                self._service.telemetry(subject, b"", _encode(fields), call.dialect)

    async def _while_undecided(self, call: _Call, reply: AwaitedReply) -> AsyncIterator[bytes]:
        """Yield a line every few seconds until there is an answer, or the wait is over."""
        for event, wait_s in ((reply.heard, DECIDED_S), (reply.answered, self._config.wait_s)):
            until = anyio.current_time() + wait_s
            while not event.is_set() and (left := until - anyio.current_time()) > 0:
                with anyio.move_on_after(min(ALIVE_S, left)):
                    await event.wait()
                yield _alive(call)
            if reply.pending is None:
                return

    def _answer_to(self, call: _Call, reply: AwaitedReply) -> HookAnswer:
        decision = reply.pending if reply.content is None else reply.content
        if isinstance(decision, Decision) and decision.status == "pending":
            self._held.drop(decision.agent, decision.id, reply.address)
        if self._muted() or not isinstance(decision, Decision):
            return refusal(call.dialect, "safetyd: the daemon cannot decide now. Try again soon.")
        return answer_to(call.dialect, decision)


def _alive(call: _Call) -> bytes:
    return f"safetyd/1 {call.nonce} alive\n".encode()


def _last(call: _Call, answer: HookAnswer) -> bytes:
    texts = answer.stdout.encode(), answer.stderr.encode()
    sizes = " ".join(str(len(text)) for text in texts)
    line = f"safetyd/1 {call.nonce} {answer.exit} {sizes}\n"
    return line.encode() + b"".join(texts)


def _uid(request: web.Request) -> int | None:
    """Return the user of the process at the other end of the socket."""
    transport = request.transport
    opened = None if transport is None else transport.get_extra_info("socket")
    if opened is None:
        return None
    size = struct.calcsize("3i")
    credentials = opened.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(struct.unpack("3i", credentials)[1])
