"""Agents over HTTP: propose, claim, report an outcome, wait for an answer.

Messages take the same path as on the bus, so the same limits and rules apply. A token identifies
the agent; nobody can propose without a token.
"""

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Final

import msgspec
from aiohttp import web

from safetyd.agents.agent_service import AgentService
from safetyd.agents.claims import ClaimResult
from safetyd.agents.held_replies import HeldReplies
from safetyd.agents.sender_accounts import OverLimit, RequestRoom, SenderAccounts, of_agent
from safetyd.bus.codec import Malformed, read_object
from safetyd.bus.flood_gate import SHUT_S
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import MAX_MESSAGE_BYTES
from safetyd.core.messages.telemetry import Noted
from safetyd.operators.replies import refused
from safetyd.web.request_room import TooLong, read_body, room_for
from safetyd.web.v1.agent_replies import HttpReplies
from safetyd.web.v1.http_refusals import (
    LEAST_S,
    HttpRefusal,
    json_response,
    refusal_response,
    refuse_other_sites,
    status_of,
)
from safetyd.web.v1.query_parameters import read_parameters
from safetyd.web.v1.request_waits import NoRequest, RequestWaits

PROPOSE: Final = "/api/v1/propose/{agent}"
CLAIM: Final = "/api/v1/claim/{agent}"
OUTCOME: Final = "/api/v1/outcome/{id}"
WAIT: Final = "/api/v1/wait/{request}"
PATIENCE_S: Final = 5.0
HELD_S: Final = 30.0
MAX_HELD_S: Final = 60.0
# The HTTP status of replies that are not a decision of a guard, by rule.
REFUSED: Final[Mapping[str, int]] = {
    "intake.malformed": 400,
    "intake.agent": 429,
    "dry_run.agent": 429,
    "intake.unavailable": 503,
}
NOT_TAKEN: Final = frozenset({"malformed", "rate_limit", "unavailable"})

# Stands for every body that is too long, so that the service refuses it as on the bus.
TOO_LONG: Final = bytes(MAX_MESSAGE_BYTES + 1)

_encode = msgspec.json.Encoder().encode


class WaitQuestion(msgspec.Struct, kw_only=True):
    """Wait for the answer to a request."""

    request: str  # the `request_id` of a pending decision
    # how long to wait, in seconds
    timeout_s: Annotated[float, msgspec.Meta(ge=0, le=MAX_HELD_S)] = HELD_S


Handler = Callable[[web.Request, str, RequestRoom], Awaitable[web.Response]]
Send = Callable[[bytes], None]  # takes the address to which the reply is sent


class AgentRoutes:
    """`agent_of` returns the agent of a token. `shut` returns the agents locked out for flooding.

    While `muted` returns True, another daemon may be writing the journal.
    """

    def __init__(  # noqa: PLR0913 - each is another part of the daemon
        self,
        service: AgentService,
        replies: HttpReplies,
        waits: RequestWaits,
        held: HeldReplies,
        accounts: SenderAccounts,
        *,
        agent_of: Callable[[str], str],
        shut: Callable[[], frozenset[str]],
        problem: Callable[[], str],
        muted: Callable[[], bool],
    ) -> None:
        self._service = service
        self._replies = replies
        self._waits = waits
        self._held = held
        self._accounts = accounts
        self._agent_of = agent_of
        self._shut = shut
        self._problem = problem
        self._muted = muted

    def routes(self, app: web.Application) -> None:
        """Add the paths, which do not need the operator's bearer token."""
        for method, path, handler in (
            ("POST", PROPOSE, self._propose),
            ("POST", CLAIM, self._claim),
            ("POST", OUTCOME, self._outcome),
            ("GET", WAIT, self._wait),
        ):
            resource = app.router.add_resource(path)
            resource.add_route(method, self._for_agent(handler))
            resource.add_route("*", _wrong_method(method))

    def guest(self, request: web.Request) -> str:
        """Return the account of the agent that sent the request."""
        agent = self._agent(request)
        return of_agent(agent).account if agent else ""

    def _for_agent(self, handler: Handler) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answered(request: web.Request) -> web.Response:
            try:
                async with self.admitted(request) as (agent, room):
                    return await handler(request, agent, room)
            except OverLimit as exc:
                return refusal_response(HttpRefusal("rate_limit", str(exc), exc.wait_s).refusal)
            except HttpRefusal as exc:
                return refusal_response(exc.refusal)

        return answered

    @asynccontextmanager
    async def admitted(self, request: web.Request) -> AsyncIterator[tuple[str, RequestRoom]]:
        """Identify the agent and count its request, or refuse the request."""
        agent = self._admitted(request)
        async with room_for(request, self._accounts, of_agent(agent)) as room:
            yield agent, room

    def _agent(self, request: web.Request) -> str:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        return self._agent_of(token.strip()) if scheme.lower() == "bearer" else ""

    def _admitted(self, request: web.Request) -> str:
        """Return the agent, or refuse the request."""
        refuse_other_sites(request)
        agent = self._agent(request)
        if not agent:
            make = "create one with `safetyd agent add NAME --token`"
            raise HttpRefusal("no_token", f"a valid agent token is required; {make}")
        named = request.match_info.get("agent", agent)
        if named != agent:
            raise HttpRefusal("other_agent", f"this token is for {agent}, not for {named!r}")
        if agent in self._shut():
            error = f"{agent} far exceeded its limits and is locked out for now; try again later"
            raise HttpRefusal("rate_limit", error, SHUT_S)
        return agent

    async def _propose(self, request: web.Request, agent: str, room: RequestRoom) -> web.Response:
        body = await _body(request, room)
        return await self._answer(lambda reply: self._service.propose(_subject(agent), reply, body))

    async def _claim(self, request: web.Request, agent: str, room: RequestRoom) -> web.Response:
        body = await _body(request, room)
        return await self._answer(lambda reply: self._service.claim(_subject(agent), reply, body))

    async def _outcome(self, request: web.Request, agent: str, room: RequestRoom) -> web.Response:
        body = _outcome_of(request.match_info["id"], await _body(request, room))
        return await self._answer(
            lambda reply: self._service.telemetry(_subject(agent), reply, body)
        )

    async def _wait(self, request: web.Request, agent: str, _room: RequestRoom) -> web.Response:
        asked = read_parameters(WaitQuestion, request)
        return await self._answer(
            lambda reply: self._waits.wait(agent, asked.request, reply), asked.timeout_s
        )

    async def _answer(self, send: Send, held_s: float = HELD_S) -> web.Response:
        """Send a message and return its answer. Refuse if another daemon may write the journal."""
        with self._replies.awaited() as reply:
            send(reply.address)
            answer = await reply.wait(PATIENCE_S, held_s)
        if isinstance(answer, Decision) and answer.status == "pending":
            self._held.drop(answer.agent, answer.id, reply.address)
        if self._muted():
            raise HttpRefusal("unavailable", "another daemon may be writing the journal")
        if answer is None:
            reason = self._problem() or f"no answer within {PATIENCE_S:g} s"
            raise HttpRefusal("unavailable", f"{reason}; send it again with the same id")
        return _response(answer)


def _subject(agent: str) -> bytes:
    return b"http." + agent.encode()


async def _body(request: web.Request, room: RequestRoom) -> bytes:
    try:
        return await read_body(request, room, MAX_MESSAGE_BYTES)
    except TooLong:
        return TOO_LONG
    except (TimeoutError, ConnectionError):
        error = f"the body did not arrive within {room.body_s:g} s"
        raise HttpRefusal("invalid", error) from None


def _outcome_of(id_: str, body: bytes) -> bytes:
    """Return the telemetry message: the body, with the type and the id from the address."""
    try:
        fields = read_object(body)
    except Malformed:
        return body  # the service refuses it later, as on the bus
    about = {"type": "outcome", "id": id_}
    for name, value in about.items():
        if fields.get(name, value) != value:
            error = f"{name} is {fields[name]!r} in the body; leave it out or send {value!r}"
            raise HttpRefusal("invalid", error)
    missing = _encode({name: about[name] for name in about if name not in fields})
    more = b"," if fields and missing != b"{}" else b""
    return missing[:-1] + more + body[body.index(b"{") + 1 :]


def _response(answer: object) -> web.Response:
    match answer:
        case NoRequest():
            return refusal_response(refused(answer.code, answer.error))
        case Decision(seq=None, triggered_rules=(rule, *_)):
            return _with_status(answer, REFUSED.get(rule, 200), answer.retry_after_s)
        case Noted(code=str(cause)) | ClaimResult(cause=cause) if cause in NOT_TAKEN:
            return _with_status(answer, status_of(cause))
    return _with_status(answer, 200)


def _with_status(answer: object, status: int, wait_s: float | None = None) -> web.Response:
    retried = status in {429, 503}
    seconds = max(math.ceil(wait_s or 0), LEAST_S)
    return json_response(_encode(answer), status, {"Retry-After": str(seconds)} if retried else {})


def _wrong_method(method: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def refuse(_request: web.Request) -> web.Response:
        response = refusal_response(refused("method_not_allowed", f"send {method}"))
        response.headers["Allow"] = method
        return response

    return refuse
