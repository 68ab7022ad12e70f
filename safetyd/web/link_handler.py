"""The pages of decision links: `/d/TOKEN`.

GET and HEAD answer nothing. Only a POST from our own page, or from a button in a message, answers.
Tokens are never logged or repeated.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from http import HTTPStatus
from typing import Final

from aiohttp import web

from safetyd.clock import Clock, uptime
from safetyd.journal.mailbox import Unanswered
from safetyd.notify.links.tokens import DEVICE_TIME
from safetyd.web.forms import (
    COOKIE,
    FormRefused,
    answer_form,
    app_origin,
    caller,
    is_foreign,
    origin_of,
    peer_of,
    read_fields,
)
from safetyd.web.http_server import html_response
from safetyd.web.link_answers import paired
from safetyd.web.link_pages import LinkPages, LinksUnavailable, UnknownLink
from safetyd.web.pages import result_pages
from safetyd.web.pages.page_frame import page_headers
from safetyd.web.pages.result_pages import ResultPage, pairing_page, told_page
from safetyd.web.throttle import Throttle

PATH: Final = "/d/{token}"
MAX_PAIRED: Final = 1000  # used pairing links to remember; a link expires after ten minutes

log = logging.getLogger("safetyd.web")


class LinkHandler:
    """`public_url` is the base URL of links, or empty if they lead to the listener itself.

    `apps` returns the origins of web apps that show messages with buttons.
    """

    def __init__(
        self,
        pages: LinkPages,
        clock: Clock,
        *,
        public_url: str = "",
        apps: Callable[[], Collection[str]] = tuple,
        now: Callable[[], float] = uptime,
    ) -> None:
        self._pages = pages
        self._signer = pages.signer
        self._clock = clock
        self._throttle = Throttle(now)
        self._proxied = bool(public_url)
        self._origin = origin_of(public_url)
        self._apps = apps
        self._headers = page_headers(public_url)
        self._paired: dict[str, None] = {}  # used pairing links
        self.counts: Counter[str] = Counter()  # responses, by method and status

    def routes(self, app: web.Application) -> None:
        app.router.add_get(PATH, self._get)
        app.router.add_post(PATH, self._post)

    async def _get(self, request: web.Request) -> web.Response:
        return await self._answered(request, self._look)

    async def _post(self, request: web.Request) -> web.Response:
        return await self._answered(request, self._decide)

    async def _answered(
        self, request: web.Request, act: Callable[[web.Request], Awaitable[web.Response]]
    ) -> web.Response:
        try:
            _allowed(self._wait_s(request))
            response = await self._found(request, act)
        except FormRefused as stop:
            response = self._page(stop.told)
        self.counts[f"{request.method} {response.status}"] += 1
        return response

    async def _found(
        self, request: web.Request, act: Callable[[web.Request], Awaitable[web.Response]]
    ) -> web.Response:
        try:
            return await act(request)
        except UnknownLink:
            _allowed(self._throttle.stranger())
            return self._page(result_pages.nobody())
        except LinksUnavailable as exc:
            return self._page(result_pages.unavailable(under_way=exc.under_way))

    def _wait_s(self, request: web.Request) -> float:
        """Count a request by its token or, if that is invalid, by the client's address."""
        token = request.match_info["token"]
        token_id = self._signer.check(token)
        if token_id is None and self._recipient_of(token) is None:
            return self._throttle.request(self._caller(request))
        return self._throttle.look(token_id or token.encode())

    async def _look(self, request: web.Request) -> web.Response:
        token = request.match_info["token"]
        token_id = self._signer.check(token)
        if token_id is None:
            return self._look_at_pairing(token)
        focus, cookie = request.query.get("i", ""), request.cookies.get(COOKIE, "")
        return self._page(await self._pages.look(token_id, focus=focus, cookie=cookie))

    async def _decide(self, request: web.Request) -> web.Response:
        token = request.match_info["token"]
        token_id = self._signer.check(token)
        if token_id is None and self._recipient_of(token) is None:
            raise UnknownLink
        _allowed(self._throttle.answer(token_id or token.encode()))
        app = app_origin(request, self._apps()) if token_id else ""
        if not app and is_foreign(request, self._origin):
            raise FormRefused(result_pages.foreign())
        fields = await read_fields(request)
        if token_id is None:
            return await self._pair(token, fields, self._caller(request))
        form = answer_form(
            fields,
            cookie="" if app else request.cookies.get(COOKIE, ""),
            peer=peer_of(request, self._caller(request)),
            foreign=bool(app),
        )
        response = self._page(await self._pages.settle(token_id, form))
        if app:  # otherwise the app reports an error, although the answer is recorded
            response.headers.update({"Access-Control-Allow-Origin": app, "Vary": "Origin"})
        return response

    def _caller(self, request: web.Request) -> str:
        return caller(request, proxied=self._proxied)

    def _look_at_pairing(self, token: str) -> web.Response:
        recipient = self._recipient_of(token)
        if recipient is None:
            raise UnknownLink
        nonce = self._signer.nonce(token.encode(), self._clock.now().at)
        return self._page(ResultPage(HTTPStatus.OK, pairing_page(recipient, nonce)))

    async def _pair(self, token: str, fields: dict[str, str], address: str) -> web.Response:
        """Pair a browser with a recipient and notify them. A link pairs only one browser."""
        now, recipient = self._clock.now().at, self._recipient_of(token)
        if recipient is None:
            raise UnknownLink
        if not self._signer.nonce_ok(token.encode(), fields.get("n", ""), now):
            raise FormRefused(result_pages.foreign())
        self._use_up(token)
        try:
            plan = paired(recipient, address)
            await self._pages.gateway.carry_out(plan, lambda _engine, _moment: None)
        except Unanswered:
            self._paired.pop(token, None)
            raise LinksUnavailable(under_way=False) from None
        page = told_page("Paired", f"This browser can now answer for {recipient}.", tone="good")
        response = self._page(ResultPage(HTTPStatus.OK, page))
        response.set_cookie(
            COOKIE,
            self._signer.device(recipient, now),
            max_age=int(DEVICE_TIME.total_seconds()),
            secure=True,
            httponly=True,
            samesite="Strict",
        )
        log.info("a browser was paired for %s", recipient)
        return response

    def _use_up(self, token: str) -> None:
        """Mark a pairing link as used, before the journal is written."""
        self._paired[token] = None
        if len(self._paired) > MAX_PAIRED:
            del self._paired[next(iter(self._paired))]

    def _recipient_of(self, token: str) -> str | None:
        """Return the recipient of a pairing link, or None if it is invalid, expired or used."""
        if token in self._paired:
            return None
        return self._signer.pairing_of(token, self._clock.now().at)

    def _page(self, told: ResultPage) -> web.Response:
        return html_response(told, self._headers)


def _allowed(wait_s: float) -> None:
    if wait_s:
        raise FormRefused(result_pages.too_often(wait_s))
