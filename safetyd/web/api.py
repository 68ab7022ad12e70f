"""The API under /api/ for programs of the local operator. This module handles safe mode.

Every request needs the operator's bearer token, which web pages do not have. Every answer is JSON;
errors are `{"error": …}`.
"""

import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import anyio
import msgspec
from aiohttp import web

from safetyd.bus.codec import Malformed, read_object
from safetyd.bus.keyring import LOCAL_OPERATOR, KeyUnusable
from safetyd.core.anonymous_pool import ANONYMOUS
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.guards.kernel import EVERYBODY
from safetyd.core.guards.safe_mode import SafeModeStatus
from safetyd.journal.mailbox import Unanswered
from safetyd.operators.commands import check_kernel, safe_mode_exit
from safetyd.operators.contract.hold_contract import ExitCommand
from safetyd.operators.replies import CommandRefused, Refusal
from safetyd.web.engine_gateway import Ask, EngineGateway
from safetyd.web.http_server import Guest, Routes
from safetyd.web.v1.http_refusals import CHALLENGE

BODY_S: Final = 5.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = logging.getLogger("safetyd.web")

_decode = msgspec.json.Decoder(ExitCommand).decode
_encode = msgspec.json.Encoder().encode


class Api:
    """Everything under /api/. GET never changes anything."""

    def __init__(
        self,
        bearer: Callable[[], str],
        gateway: EngineGateway,
        further: Sequence[Routes] = (),
        guest: Guest = lambda _request: "",
    ) -> None:
        self._bearer = bearer  # read for each request: it can be rotated
        self._gateway = gateway
        self._further = further
        self._guest = guest

    def routes(self, outer: web.Application) -> None:
        app = web.Application(middlewares=[_errors_are_json, self._operator_only])
        app.router.add_get("/agent/safe-mode", self._get_safe_mode)
        app.router.add_post("/agent/safe-mode/exit", self._post_exit)
        for add in self._further:
            add(app)
        outer.add_subapp("/api/", app)

    @web.middleware
    async def _operator_only(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            bearer = self._bearer()
        except (OSError, KeyUnusable) as exc:
            log.error("/api/ refuses all requests: %s", exc)  # noqa: TRY400 - it says it all
            return _told({"error": "the operator's token cannot be read; see the log"}, 503)
        if not _carries(bearer, request.headers.get("Authorization", "")):
            nowhere = isinstance(request.match_info.http_exception, web.HTTPNotFound)
            if nowhere and self._guest(request):
                return await handler(request)  # an agent mistyped the path: answer 404
            return _told({"error": "the operator's bearer token is required"}, 401, CHALLENGE)
        return await handler(request)

    async def _get_safe_mode(self, request: web.Request) -> web.Response:
        agent = _agent(request)
        check_kernel(agent)
        return _shown(agent, await self._gateway.ask(_status_of(agent)))

    async def _post_exit(self, request: web.Request) -> web.Response:
        command = await _command(request)
        agent = _agent(request, command.agent)
        plan = safe_mode_exit(LOCAL_OPERATOR, msgspec.structs.replace(command, agent=agent))
        answer, after = await self._gateway.carry_out(plan, _status_of(agent))
        return _not_left(answer) if isinstance(answer, Refusal) else _shown(agent, after)


def _carries(bearer: str, authorization: str) -> bool:
    scheme, _, given = authorization.partition(" ")
    same = hmac.compare_digest(given.strip().encode(errors="replace"), bearer.encode())
    return same and scheme.lower() == "bearer"


@web.middleware
async def _errors_are_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except (CommandRefused, msgspec.ValidationError) as exc:
        return _told({"error": str(exc)}, 400)
    except Unanswered as exc:
        return _told({"error": str(exc)}, 503)
    except web.HTTPException as exc:
        kept = {name: value for name, value in exc.headers.items() if name == "Allow"}
        return _told({"error": exc.reason.lower()}, exc.status, kept)


async def _command(request: web.Request) -> ExitCommand:
    try:
        with anyio.fail_after(BODY_S):
            body = await request.read() or b"{}"
    except TimeoutError:
        raise web.HTTPRequestTimeout from None
    except ConnectionError:
        raise web.HTTPBadRequest from None  # the client is gone
    try:
        read_object(body)
    except Malformed as exc:
        raise CommandRefused("malformed", str(exc)) from None
    return _decode(body)


def _agent(request: web.Request, also: str | None = None) -> str | None:
    """Return the agent in the URL. Refuse the request if the body (`also`) names another agent."""
    names = {*request.query.getall("agent", []), also} - {None}
    if len(names) > 1:
        raise CommandRefused(
            "invalid", f"{' and '.join(sorted(map(repr, names)))} are different agents"
        )
    return names.pop() if names else None


def _status_of(agent: str | None) -> Ask:
    """Return a query for the state of safe mode. Its answer is None for unknown agents."""

    def ask(engine: EngineState, moment: Moment) -> SafeModeStatus | None:
        known = agent is None or agent in {EVERYBODY, ANONYMOUS} or _heard_of(engine, agent)
        return engine.guards.safe_mode.status(agent, moment.t) if known else None

    return ask


def _heard_of(engine: EngineState, agent: str) -> bool:
    return agent in engine.keys.agents or engine.guards.safe_mode.knows(agent)


def _shown(agent: str | None, found: object) -> web.Response:
    if not isinstance(found, SafeModeStatus):
        raise CommandRefused("unknown_agent", f"unknown agent {agent!r}")
    fields = msgspec.structs.asdict(found)
    if agent is not None:
        del fields["agents"]
    return _told(fields)


def _not_left(refusal: Refusal) -> web.Response:
    """Return why safe mode did not end: an error code and its details."""
    said = msgspec.to_builtins(refusal)
    known = {key: said[key] for key in said if key not in {"ok", "code", "error"}}
    return _told({"error": refusal.code, **known}, 409)


def _told(
    content: Mapping[str, object], status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    return web.Response(
        status=status,
        body=_encode(content) + b"\n",
        content_type="application/json",
        headers={"Cache-Control": "no-store", **(headers or {})},
    )
