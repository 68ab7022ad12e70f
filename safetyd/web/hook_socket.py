"""The Unix socket that hooks of coding agents connect to.

The answer is a stream of lines, which `safetyd/hook.py` reads. The first line says at once that the
daemon is alive. It is repeated every five seconds while the call waits for an operator. The last
line has the exit code and the sizes of the two texts that the hook prints. The texts follow it.
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from pathlib import Path
from typing import Final, NamedTuple, cast, get_args

import anyio
import msgspec
from aiohttp import web

from safetyd.agents.agent_service import AgentService
from safetyd.agents.held_replies import HeldReplies
from safetyd.agents.proposal_envelope import LookAt
from safetyd.agents.sender_accounts import (
    OverLimit,
    RequestRoom,
    Sender,
    SenderAccounts,
    of_agent,
    of_user,
)
from safetyd.clock import uptime, worked
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import is_token
from safetyd.host import user_name
from safetyd.hosts.call_lock import is_key, without_key
from safetyd.hosts.hook_answer import (
    NEEDS_TOKEN,
    TAKES_CONTEXT,
    HookAnswer,
    answer_to,
    greeting,
    look_at,
    refusal,
    unlocked,
)
from safetyd.hosts.hook_event import (
    Dialect,
    HookEvent,
    HookKind,
    Unreadable,
    read_event,
    refuse_key,
)
from safetyd.hosts.host_prompts import HostPrompts
from safetyd.hosts.hosts_config import HostsConfig
from safetyd.hosts.loaded_check import HostUser, LoadedCheck, host_user
from safetyd.hosts.name_owners import NameOwners
from safetyd.hosts.otlp_records import ToolRun
from safetyd.hosts.project_root import project_root
from safetyd.hosts.prompt_answer import UNANSWERED
from safetyd.hosts.request_news import RequestNews
from safetyd.hosts.tool_call import MAX_WORD, Fields, call_folder, proposal_fields
from safetyd.hosts.tool_report import telemetry_fields, tool_run
from safetyd.hosts.unasked_calls import Question, UnaskedCalls
from safetyd.hosts.unnamed_calls import UnnamedCalls
from safetyd.hosts.wait_times import WaitTimes
from safetyd.web.http_connection import connections, cut_off, uid_of
from safetyd.web.request_room import TooLong, read_body, room_for
from safetyd.web.v1.agent_replies import AwaitedReply, HttpReplies

PATH: Final = "/hooks/v1/{dialect}/{kind}"
ASKING: Final[frozenset[HookKind]] = frozenset({"before", "permission"})
MAX_BODY_BYTES: Final = 8 * 1024 * 1024
MAX_PATH_BYTES: Final = 100  # of a socket
AT_ONCE: Final = 16  # connections that are accepted before others are served
BACKLOG: Final = 1024  # connections that the kernel holds until then
ALIVE_S: Final = 5.0
DECIDED_S: Final = 10.0  # without a decision by then, the call is refused

log = logging.getLogger("safetyd.web")
_encode = msgspec.json.Encoder().encode


class HookService(NamedTuple):
    """The service that handles messages, and the replies that it sends."""

    agents: AgentService
    replies: HttpReplies


class HookCall(NamedTuple):
    """The agent and the Unix user of a hook, its host and the kind of event."""

    agent: str
    dialect: Dialect
    kind: HookKind
    uid: int | None
    service: HookService
    room: RequestRoom
    user: HostUser = HostUser()
    # The targets of paths that the hook saw; empty before it looked, None if it cannot look.
    seen: Mapping[str, str] | None = None
    lock: str = ""  # the key that unlocks a call

    @property
    def subject(self) -> bytes:
        return b"hook." + self.agent.encode()

    def propose(self, fields: Fields, reply: AwaitedReply) -> None:
        """Propose a call on behalf of its agent."""
        agents, content = self.service.agents, _encode(fields)
        agents.propose(self.subject, reply.address, content, self.dialect, self.seen)


class _NotAdmitted(Exception):
    """The hook may not speak for this agent; the text says why."""


class HookSocket:
    """Listens on the socket, and answers the hooks of coding agents.

    `anonymous` serves agents without a token, if they are admitted. `agent_of` returns the agent of
    a token, or an empty text. `config` returns the current settings. `ran` compares a tool that ran
    with the answers.
    """

    def __init__(  # noqa: PLR0913 - each is another part of the daemon
        self,
        config: Callable[[], HostsConfig],
        keyed: HookService,
        anonymous: HookService | None,
        held: HeldReplies,
        news: RequestNews,
        calls: UnaskedCalls,
        *,
        ran: Callable[[str, ToolRun], None],
        waits: WaitTimes,
        loaded: LoadedCheck,
        accounts: SenderAccounts,
        owners: NameOwners,
        directory: Path,
        agent_of: Callable[[str], str],
        muted: Callable[[], bool],
    ) -> None:
        self._config = config
        self._keyed = keyed
        self._anonymous = anonymous
        self._held = held
        self._news = news
        self._waits = waits
        self._calls = calls
        self._loaded = loaded
        self._ran = ran
        self._agent_of = agent_of
        self._muted = muted
        self._path = directory.absolute() / config().socket
        self._accounts = accounts
        self._owners = owners
        self._prompts = HostPrompts(lambda: config().answer_prompts, uptime)
        self._unnamed = UnnamedCalls()
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        """Listen and return the path; empty if it is too long for a socket."""
        if len(os.fsencode(self._path)) > MAX_PATH_BYTES:
            log.warning("%s is too long for a socket: set a shorter [hosts] socket", self._path)
            return ""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post(PATH, self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        with suppress(FileNotFoundError):
            self._path.unlink()
        opened = socket.socket(socket.AF_UNIX)
        opened.setblocking(False)  # noqa: FBT003 - its only argument
        opened.bind(str(self._path))
        self._server = await asyncio.get_running_loop().create_unix_server(
            connections(self._runner.server, self._accounts), sock=opened, backlog=AT_ONCE
        )
        opened.listen(BACKLOG)
        self._path.chmod(0o666)  # any user's agent may ask
        return str(self._path)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._runner is not None:
            await self._runner.cleanup()
            self._path.unlink(missing_ok=True)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        dialect, kind = request.match_info["dialect"], request.match_info["kind"]
        nonce = request.headers.get("Safetyd-Nonce", "")
        if dialect not in get_args(Dialect) or kind not in get_args(HookKind):
            return web.Response(status=404, text="unknown hook\n")
        if not is_token(nonce):
            return web.Response(status=400, text="Safetyd-Nonce is missing\n")
        dialect, kind = cast("Dialect", dialect), cast("HookKind", kind)
        async with AsyncExitStack() as stack:
            try:
                agent, sender, service = self._admitted(request)
                room = await stack.enter_async_context(
                    room_for(request, self._accounts, sender, turn=True)
                )
                body = await read_body(request, room, MAX_BODY_BYTES)
            except (_NotAdmitted, OverLimit) as exc:
                cut_off(request)  # the hook refuses the call in any case
                return web.Response(body=_last(nonce, not_answered(dialect, kind, str(exc))))
            except (TooLong, TimeoutError, ConnectionError) as exc:
                cut_off(request)
                status = 413 if isinstance(exc, TooLong) else 408
                return web.Response(status=status, text="the event is too long or too slow\n")
            uid, lock = uid_of(request), request.headers.get("Safetyd-Lock", "")
            body, _, links = body.partition(b"\0")
            call = HookCall(
                agent,
                dialect,
                kind,
                uid,
                service,
                room,
                host_user(uid, request.headers),
                _seen(links) if "Safetyd-Looks" in request.headers else None,
                lock if is_key(lock) else "",
            )
            return await self._respond(request, call, body, nonce)

    async def _respond(
        self, request: web.Request, call: HookCall, body: bytes, nonce: str
    ) -> web.StreamResponse:
        if call.kind not in ASKING:
            # A hook that reports does not wait for the answer, so it may be gone by now.
            return web.Response(body=_last(nonce, self.report(call, body)))
        response = web.StreamResponse(headers={"Content-Type": "application/x-safetyd-hook"})
        try:
            await response.prepare(request)
            async with aclosing(self.answers(call, body)) as answers:
                async for answer in answers:
                    await response.write(_alive(nonce) if answer is None else _last(nonce, answer))
        except ConnectionError:  # the user interrupted the call, or the hook was killed
            log.info("a hook of %s ended before it received its answer", call.agent)
        return response

    def _admitted(self, request: web.Request) -> tuple[str, Sender, HookService]:
        """Return the agent of a hook, whose account pays for it, and the service for it."""
        agent, uid = request.headers.get("Safetyd-Agent", ""), uid_of(request)
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            if self._agent_of(token.strip()) != agent:
                raise _NotAdmitted(f"the token is not valid for {agent!r}")
            return agent, of_agent(agent), self._keyed
        if self._anonymous is None:
            raise _NotAdmitted(f"{agent!r} {NEEDS_TOKEN}")
        owner = self._owners.owner(agent, uid)
        if owner != uid:
            name = user_name(owner or 0)
            raise _NotAdmitted(f"the name {agent!r} belongs to {name} and you need another one")
        return agent, of_user(uid, agent), self._anonymous

    def report(self, call: HookCall, body: bytes) -> HookAnswer:
        """Record what a host reports about a call or a session, and return the answer."""
        with suppress(Unreadable):
            event = read_event(call.dialect, call.kind, body)
            if call.lock:
                event.tool_input = without_key(event.tool_name, event.tool_input, call.lock)
            if call.kind == "after" and event.tool_use_id:
                self._ran(call.agent, tool_run(call.dialect, event))
            if call.kind in {"after", "denied"}:
                self._prompts.ended(call.agent, call.dialect, event)
                self._unnamed.match(call.agent, event)
            elif call.kind == "start":
                self._loaded.started(call.agent, event.session_id)
            elif call.kind == "end":
                self._unnamed.end(call.agent, event.session_id)
            counts = self._config().tool_errors == "count"
            fields = telemetry_fields(call.kind, event, count_errors=counts)
            if fields is not None:
                call.service.agents.telemetry(call.subject, b"", _encode(fields), call.dialect)
        return greeting(call.dialect) if call.kind == "start" else HookAnswer()

    async def answer(self, call: HookCall, body: bytes) -> HookAnswer:
        """Return the answer to a call or question."""
        (answer,) = [part async for part in self.answers(call, body) if part is not None]
        return answer

    async def answers(self, call: HookCall, body: bytes) -> AsyncGenerator[HookAnswer | None]:
        """Yield None at once and every few seconds, and then the answer to a call or question."""
        yield None
        try:
            event = _event_of(call, body)
        except Unreadable as exc:
            yield not_answered(call.dialect, call.kind, str(exc))
            return
        asks = call.kind == "before" and not event.safetyd_dry_run
        question = self._calls.asked(call.agent, event) if asks else None
        unnamed = call.kind == "before" and self._unnamed.name(event)
        fields = await self._fields(call, event)
        if fields is None:
            yield UNANSWERED
            return
        with call.service.replies.awaited() as reply:
            undecided = self._proposed(call, event, fields, reply, question)
            async with aclosing(undecided):
                async for _ in undecided:
                    yield None
        if isinstance(reply.content, LookAt):
            yield look_at(reply.content.paths)
            return
        decision = self._decision(reply)
        if unnamed and _allows(decision):
            self._unnamed.add(call.agent, event)
        yield self._conclusion(call, event, fields, decision)

    async def _proposed(
        self,
        call: HookCall,
        event: HookEvent,
        fields: Fields,
        reply: AwaitedReply,
        question: Question | None,
    ) -> AsyncGenerator[None]:
        """Propose a call, and yield every few seconds until it is decided or its hook is gone."""
        call.propose(fields, reply)
        try:
            async for _ in self._while_undecided(reply, event.session_id[:MAX_WORD], call.room):
                yield
        finally:
            self._release(reply)
            # A hook that must look at paths first asks again.
            if question is not None and not isinstance(reply.content, LookAt):
                self._calls.answered(question, allowed=_allows(self._decision(reply)))

    def _conclusion(
        self, call: HookCall, event: HookEvent, fields: Fields, decision: Decision | None
    ) -> HookAnswer:
        """Return the answer to a call or question that was decided."""
        if call.kind == "permission":
            return self._prompts.answer(call.dialect, event, decision)
        self._prompts.judged(call.agent, call.dialect, fields, decision)
        return self._answer_to(call, event, decision)

    async def _fields(self, call: HookCall, event: HookEvent) -> Fields | None:
        """Return the fields of the proposal, or None if the user of the host answers."""
        begun_s = worked()
        fields = proposal_fields(call.dialect, event, call.uid, project_root(call_folder(event)))
        call.room.charge(worked() - begun_s)
        if call.kind == "permission":
            return self._prompts.proposal(call.agent, call.dialect, event, fields)
        return await self._loaded.with_context(call.agent, call.dialect, event, call.user, fields)

    async def _while_undecided(
        self, reply: AwaitedReply, session: str, room: RequestRoom
    ) -> AsyncIterator[None]:
        """Yield every few seconds until there is an answer, or the wait is over."""
        async for _ in _ticks(reply.heard, DECIDED_S):
            yield
        if reply.pending is None:
            return
        wait_s = self._waits.wait_s(session, reply.pending)
        with room.waiting() as waits:
            async for _ in _ticks(reply.answered, wait_s if waits else 0.0):
                yield
        if wait_s and reply.content is None:
            self._waits.unanswered(session, reply.pending.agent)

    def _release(self, reply: AwaitedReply) -> None:
        """Stop waiting for an operator: a later approval covers the next identical call."""
        if reply.content is None and (pending := reply.pending) is not None:
            self._held.drop(pending.agent, pending.id, reply.address)

    def _decision(self, reply: AwaitedReply) -> Decision | None:
        """Return the decision, which may be pending, or None if there is no valid one."""
        decision = reply.pending if reply.content is None else reply.content
        if self._muted() or not isinstance(decision, Decision):
            return None
        return decision

    def _answer_to(self, call: HookCall, event: HookEvent, decision: Decision | None) -> HookAnswer:
        if decision is None:
            return refusal(call.dialect, "safetyd: the daemon cannot decide now. Try again soon.")
        delivers = call.dialect in TAKES_CONTEXT or not decision.allowed
        session = event.session_id[:MAX_WORD]
        news = self._news.take(call.agent, session, decision) if delivers else ""
        answer = answer_to(call.dialect, decision, news)
        return unlocked(answer, event, call.lock) if call.lock and decision.allowed else answer


def _event_of(call: HookCall, body: bytes) -> HookEvent:
    """Return the event of a call or question. The time that this takes is charged."""
    begun_s = worked()
    event = read_event(call.dialect, call.kind, body)
    refuse_key(body, call.lock)
    call.room.charge(worked() - begun_s)
    return event


def _allows(decision: Decision | None) -> bool:
    return decision is not None and decision.allowed


def not_answered(dialect: Dialect, kind: HookKind, why: str) -> HookAnswer:
    """Return a refusal. A question is left to the user, and a report needs no answer."""
    if kind != "before":
        return UNANSWERED
    return refusal(dialect, f"safetyd: {why}, so this call is blocked.")


async def _ticks(event: anyio.Event, wait_s: float) -> AsyncIterator[None]:
    """Yield every few seconds until the event, for at most `wait_s`."""
    until = anyio.current_time() + wait_s
    while not event.is_set() and (left := until - anyio.current_time()) > 0:
        with anyio.move_on_after(min(ALIVE_S, left)):
            await event.wait()
        yield


def _seen(links: bytes) -> dict[str, str]:
    """Return the target of each path that the hook looked at. They alternate in `links`."""
    texts = links.decode("utf-8", "replace").split("\0")
    return dict(zip(texts[::2], texts[1::2], strict=False))


def _alive(nonce: str) -> bytes:
    return f"safetyd/1 {nonce} alive\n".encode()


def _last(nonce: str, answer: HookAnswer) -> bytes:
    texts = answer.stdout.encode(), answer.stderr.encode()
    sizes = " ".join(str(len(text)) for text in texts)
    return f"safetyd/1 {nonce} {answer.exit} {sizes}\n".encode() + b"".join(texts)
