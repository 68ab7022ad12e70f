"""The control room over HTTP: its pages and the WebSocket that updates them.

GET changes nothing and needs the session cookie. Commands are in `room_actions`.
"""

import logging
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Final

from aiohttp import web
from msgspec.structs import asdict

from safetyd.clock import Clock
from safetyd.core.guards.stop import Stop
from safetyd.journal.mailbox import Unanswered
from safetyd.operators.contract.cluster_contract import ClusterSummary
from safetyd.operators.contract.status_contract import TopBarHold, TopBarQuestion
from safetyd.operators.replies import CommandRefused
from safetyd.operators.views.top_bar_view import stopped
from safetyd.web.control_room.live_pages import LivePage, LivePages, PageReader, View
from safetyd.web.control_room.live_socket import LiveSocket
from safetyd.web.control_room.page_content import PAGES
from safetyd.web.control_room.room_assets import RoomAssets
from safetyd.web.control_room.room_pages import NOWHERE, Ask, Context, News, RoomPages, Shown
from safetyd.web.control_room.room_rendering import (
    HEADERS,
    Parts,
    Reader,
    RoomRendering,
)
from safetyd.web.control_room.visitors import Visitor, Visitors
from safetyd.web.http_server import Handler, of_another_page
from safetyd.web.operator_gateway import OperatorGateway

LIVE: Final = "control room"  # updates of open pages have their own rate limit, under this name

log = logging.getLogger("safetyd.web")


class ControlRoom:
    """`stops` returns the active stops, even while the engine does not answer.

    `closed` returns the reason why everything is blocked, or an empty string. Even if nothing is
    blocked, a query may get no answer. `cluster` returns the place of this daemon among several.
    """

    def __init__(  # noqa: PLR0913 - each is another part of the daemon
        self,
        gateway: OperatorGateway,
        visitors: Visitors,
        assets: RoomAssets,
        clock: Clock,
        *,
        stops: Callable[[], tuple[Stop, ...]],
        closed: Callable[[], str],
        cluster: Callable[[], ClusterSummary] | None = None,
    ) -> None:
        self._cluster = cluster
        self._gateway = gateway
        self._visitors = visitors
        self._clock = clock
        self._stops = stops
        self._closed = closed
        self._pages = RoomPages(PAGES)
        menu = tuple(
            page for page in self._pages.all if page.heading and (cluster or not page.clustered)
        )
        self._rendering = RoomRendering(assets, menu)
        self.live = LivePages(self._made)
        self._sockets: set[LiveSocket] = set()

    def routes(self, app: web.Application) -> None:
        for page in self._pages.all:
            app.router.add_get(page.path, self._get)
        app.router.add_get("/live", self._get_live)
        app.on_shutdown.append(self._shut_down)
        app.middlewares.append(self._keep_bar)

    @web.middleware
    async def _keep_bar(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """For an unknown URL, show signed-in visitors a page with the top bar and STOP."""
        try:
            return await handler(request)
        except web.HTTPNotFound:
            visitor = self._visitors.find(request)
            if visitor is None or request.method != "GET":
                raise
            return await self._page(NOWHERE, visitor)

    async def _get(self, request: web.Request) -> web.StreamResponse:
        visitor = self._visitors.find(request)
        if visitor is None:
            return await self._visitors.signed_out(request)
        return await self._page(self._pages.find(request.raw_path), visitor)

    async def _page(self, shown: Shown, visitor: Visitor) -> web.Response:
        ask = self._asking(visitor.name)
        bar, status = await self._bar(ask), HTTPStatus.OK
        try:
            now, content = await self._content(shown, bar, ask)
        except CommandRefused as exc:
            found = exc.code != "not_found"
            status = HTTPStatus.BAD_REQUEST if found else HTTPStatus.NOT_FOUND
            now, content = _instead(shown, "refused.html"), {"why": str(exc), "title": "Not found"}
        parts = self._rendering.parts(now, bar, content, may_act=visitor.may_act)
        reader = Reader(visitor.name, visitor.may_act)
        html = self._rendering.whole(shown, parts, reader, visitor.token, visitor.take_note())
        return web.Response(status=status, text=html, content_type="text/html", headers=HEADERS)

    async def _get_live(self, request: web.Request) -> web.StreamResponse:
        visitor = self._visitors.find(request)
        shown = self._pages.find(request.query.get("page", ""))
        if visitor is None or of_another_page(request):
            return web.Response(status=HTTPStatus.FORBIDDEN, text="sign in first\n")
        browser = visitor.session.id
        if self.live.full(browser):
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text="not now\n")
        socket = LiveSocket(partial(self._lasts, request, visitor), self._now, visitor.token)
        if not socket.can_run(request):
            return web.Response(status=HTTPStatus.UPGRADE_REQUIRED, text="this is a WebSocket\n")
        view = View(shown.address, visitor.may_act)
        page = self.live.join(view, shown, browser)
        self._sockets.add(socket)
        try:
            return await socket.run(request, PageReader(page))
        finally:
            self._sockets.discard(socket)
            self.live.leave(view, browser)

    async def _shut_down(self, _app: web.Application) -> None:
        for socket in tuple(self._sockets):
            socket.end()

    def _lasts(self, request: web.Request, visitor: Visitor) -> bool:
        """Return True if a visitor is still signed in with the same role."""
        now = self._visitors.find(request)
        return now is not None and now.may_act == visitor.may_act

    def _now(self) -> str:
        return self._clock.now().at.isoformat()

    async def _made(
        self,
        live: LivePage,
        may_act: bool,  # noqa: FBT001 - of a view
    ) -> Callable[[], Parts] | None:
        """Load a page and return a function that renders it, or renders the bar after a refusal.

        Return None if all that is the same as at the last rendering.
        """
        ask, shown = self._asking(LIVE), live.shown
        bar = await self._bar(ask)
        try:
            if news := await self._news(live, bar, ask):
                if not (live.differs(bar, {}) or news.rows or live.wanted):
                    return None
                make = partial(self._rendering.news, whole=live.wanted)
                return partial(make, shown, bar, news, may_act=may_act)
            shown, content = await self._content(shown, bar, ask)
        except CommandRefused as exc:
            log.debug("page %s was not updated: %s", shown.address, exc)
            if not live.differs(bar, {}):
                return None
            return partial(self._rendering.bar_alone, shown, bar, may_act=may_act)
        fed = shown.page.news is not None  # from now on, only new rows are loaded
        live.content = content if fed else None
        if live.differs(bar, {} if fed else content) or fed or live.wanted:
            return partial(self._rendering.parts, shown, bar, content, may_act=may_act)
        return None

    async def _news(self, live: LivePage, bar: Context, ask: Ask) -> News | None:
        """Return the new rows of a page, or None if the whole page has to be loaded."""
        load = live.shown.page.news
        if load is None or live.content is None or bar["problem"]:
            return None
        if live.rest_s > 0.0:
            return News((), live.content)
        try:
            news = await load(ask, live.shown.params, live.content, live.room)
        except Unanswered:
            return None
        if news:
            live.take(news)
        return news

    async def _content(self, shown: Shown, bar: Context, ask: Ask) -> tuple[Shown, Context]:
        """Return a page with its content, or a page that says why it cannot be shown."""
        problem: str = bar["problem"]
        if not problem:
            try:
                return shown, await shown.page.load(ask, shown.params)
            except Unanswered as exc:
                problem = str(exc)
        return _instead(shown, "closed.html"), {"problem": problem}

    async def _bar(self, ask: Ask) -> Context:
        """Return the top bar; while the engine does not answer, only the active stops."""
        problem = closed = self._closed()
        place = self._cluster() if self._cluster else None
        standby = place if place and place.role == "standby" else None
        if not closed:
            try:
                bar = asdict(await ask(TopBarQuestion()))
            except Unanswered as exc:
                problem = str(exc)
            else:
                return {**bar, "problem": "", "closed": False, "standby": standby}
        hold = stopped(self._stops()) or TopBarHold(level="NORMAL")
        known = {"hold": hold, "pending": None, "problem": problem, "closed": bool(closed)}
        return {**known, "standby": standby}

    def _asking(self, name: str) -> Ask:
        return partial(self._gateway.ask, name)


def _instead(shown: Shown, template: str) -> Shown:
    """Return the same page with another template."""
    return shown._replace(page=shown.page._replace(template=template, news=None))
