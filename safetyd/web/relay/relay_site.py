"""The web server of a relay: decision pages at `/d/TOKEN`, `/healthz`, and nothing else.

It stores nothing and sets no cookie. Tokens are never logged.
"""

import re
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from safetyd.clock import uptime
from safetyd.web.forms import FormRefused, caller, is_foreign, origin_of, peer_of, read_fields
from safetyd.web.http_server import FrontPage, Listener, health_response, html_response
from safetyd.web.link_handler import PATH
from safetyd.web.pages import result_pages
from safetyd.web.pages.front_page import links_page, links_text
from safetyd.web.pages.page_frame import page_headers
from safetyd.web.pages.result_pages import ResultPage
from safetyd.web.relay.relay_bus import NoAnswer, RelayBus
from safetyd.web.relay.relay_messages import (
    AnswerLink,
    DaemonHere,
    PingDaemon,
    RelayedPage,
    RelayRefusal,
    ViewLink,
    unpacked,
)
from safetyd.web.relay.visitor_limits import VisitorLimits

HEALTH_S: Final = 1.0  # how long a result of the health check is repeated
FIELDS: Final = ("v", "n", "c", "m")  # of the form on a page

_is_token = re.compile(r"[A-Za-z0-9_-]{1,128}\Z").match


class RelaySite:
    """`public_url` is the base URL of links."""

    def __init__(self, bus: RelayBus, host: str, port: int, public_url: str) -> None:
        self._bus = bus
        self._origin = origin_of(public_url)
        self._headers = page_headers(public_url)
        self._limits = VisitorLimits(uptime)
        self._checked: tuple[float, str] = (-HEALTH_S, "")
        name = urlsplit(public_url).hostname
        nothing = FrontPage(links_page(), links_text(), HTTPStatus.NOT_FOUND)
        self._listener = Listener(
            host, port, [self._routes, nothing.routes], lambda asked: asked == name
        )

    async def start(self) -> str:
        """Listen. Return the address."""
        return await self._listener.start()

    async def stop(self) -> None:
        await self._listener.stop()

    def _routes(self, app: web.Application) -> None:
        app.router.add_get(PATH, self._get)
        app.router.add_post(PATH, self._post)
        app.router.add_get("/healthz", self._get_health)

    async def _get(self, request: web.Request) -> web.Response:
        token = request.match_info["token"]
        focus = request.query.get("i", "")[:1]
        return await self._shown(request, ViewLink(token=token, focus=focus))

    async def _post(self, request: web.Request) -> web.Response:
        if is_foreign(request, self._origin):
            return self._page(result_pages.foreign())
        try:
            fields = await read_fields(request)
        except FormRefused as exc:
            return self._page(exc.told)
        answer = AnswerLink(
            token=request.match_info["token"],
            fields={name: fields[name] for name in FIELDS if name in fields},
            peer=peer_of(request, caller(request, proxied=True)),
        )
        return await self._shown(request, answer)

    async def _get_health(self, _request: web.Request) -> web.Response:
        at, problem = self._checked
        if uptime() - at >= HEALTH_S:
            problem = await self._problem()
            self._checked = uptime(), problem
        return health_response(problem)

    async def _problem(self) -> str:
        if not self._bus.connected:
            return "the bus is not connected"
        try:
            answer = await self._bus.ask(PingDaemon(), repeat=False, patience_s=HEALTH_S)
        except NoAnswer:
            return "no daemon answers"
        if isinstance(answer, DaemonHere):
            return answer.problem
        return "the daemon refuses this relay"

    async def _shown(self, request: web.Request, message: ViewLink | AnswerLink) -> web.Response:
        address = caller(request, proxied=True)
        if wait := self._limits.wait_s(address, message.token):
            return self._page(result_pages.too_often(wait))
        if not _is_token(message.token):
            self._limits.opened_nothing(address)
            return self._page(result_pages.nobody())
        try:
            found = await self._bus.ask(message, repeat=isinstance(message, ViewLink))
        except NoAnswer as exc:
            return self._page(result_pages.unreachable(message.token, under_way=exc.sent))
        if isinstance(found, RelayedPage):
            self._limits.opened_page(message.token)
        elif isinstance(found, RelayRefusal) and found.code == "unknown":
            self._limits.opened_nothing(address)
        return self._answered(message, found)

    def _answered(self, message: ViewLink | AnswerLink, found: object) -> web.Response:
        try:
            if isinstance(found, RelayedPage):
                page = ResultPage(found.status, unpacked(found.html))
                return html_response(page, {**self._headers, **found.headers})
        except ValueError:
            pass
        under_way = isinstance(message, AnswerLink)
        refusal = found if isinstance(found, RelayRefusal) else RelayRefusal(code="internal")
        match refusal.code:
            case "unknown":
                told = result_pages.nobody()
            case "too_often":
                told = result_pages.too_often(refusal.wait_s)
            case "malformed":
                told = result_pages.malformed(HTTPStatus.BAD_REQUEST)
            case "unavailable":
                told = result_pages.unavailable(under_way=refusal.under_way)
            case "no_key":
                told = result_pages.unreachable(message.token, under_way=False)
            case _:
                told = result_pages.unreachable(message.token, under_way=under_way)
        return self._page(told)

    def _page(self, told: ResultPage) -> web.Response:
        return html_response(told, self._headers)
