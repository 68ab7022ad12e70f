"""HTTP listeners, metrics and health, and the page at `/`."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from http import HTTPStatus
from typing import Final, cast
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.http import HttpProcessingError
from aiohttp.http_exceptions import LineTooLong

from safetyd.clock import uptime
from safetyd.host import is_this_machine, netloc
from safetyd.journal.mailbox import Mailbox
from safetyd.monitoring.metrics import Metrics
from safetyd.web.loopback import BELOW, listen_on_both
from safetyd.web.pages.page_frame import HEADERS
from safetyd.web.pages.result_pages import ResultPage
from safetyd.web.scrape import Scrape, StateGauges
from safetyd.web.throttle import RequestTurns

MAX_CONNECTIONS: Final = 256  # enough to recognise a session before its connection is dropped
MAX_GUESTS: Final = 200
KEPT_S: Final = 15.0
LATER: Final = {"Retry-After": "1"}
FORMER: Final = "this host name is from before the daemon restarted: run `safetyd open`\n"
_ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - not bound here
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Health = Callable[[], str]  # the problem, or an empty string
Guest = Callable[[web.Request], str]  # the session of a request, or an empty string
Routes = Callable[[web.Application], None]  # adds paths
Serves = Callable[[str], bool]  # returns True if a host name is ours
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Listener:
    """Serves some paths under its own host names.

    With `both` it listens on both loopback addresses, or does not start. Requests with a session
    (`guest`) have their own rate limit, and their connections are never dropped to make room.
    """

    def __init__(
        self,
        host: str,
        port: int,
        routes: Sequence[Routes],
        serves: Serves = lambda _name: False,
        guest: Guest = lambda _request: "",
        *,
        both: bool = False,
    ) -> None:
        self._host = host
        self._port = port
        self._routes = routes
        self._turns = RequestTurns(uptime)
        self._guest = guest
        self._turns_of: dict[str, RequestTurns] = {}
        self._served = 0  # requests of guests that are being answered
        self._serves = serves
        self._both = both
        self._runner: web.AppRunner | None = None
        self._servers: list[asyncio.Server] = []

    async def start(self, port: int | None = None) -> str:
        """Listen on the given or configured port (0: any free one) and return an address.

        A listener on all addresses returns the loopback address.
        """
        app = web.Application(
            middlewares=[self._in_turn, self._our_host_only], client_max_size=64 * 1024
        )
        for add in self._routes:
            add(app)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        server = cast("web.Server", self._runner.server)  # not None after the setup
        await self._listen(partial(_accept, server), self._port if port is None else port)
        name, number = self._servers[0].sockets[0].getsockname()[:2]
        return f"http://{netloc(_ANY.get(name, name), number)}"

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _listen(self, accept: Callable[[], "HttpConnection"], port: int) -> None:
        loop = asyncio.get_running_loop()
        if not self._both:
            self._servers = [await loop.create_server(accept, self._host, port)]
            return
        self._servers = [
            await loop.create_server(accept, sock=opened)
            for opened in listen_on_both(self._host, port)
        ]

    @web.middleware
    async def _in_turn(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Limit the rate of requests, so that web pages do not slow down agents."""
        guest = "" if of_another_page(request) else self._guest(request)
        wait = (self._turns_for(guest) if guest else self._turns).take()
        if wait is None:
            return web.Response(status=429, text="too many requests\n", headers=LATER)
        with self._kept(request) if guest else nullcontext():
            if wait:
                await asyncio.sleep(wait)
            return await handler(request)

    def _turns_for(self, guest: str) -> RequestTurns:
        """Return the rate limit of one session. If there are too many limits, drop the oldest."""
        turns = self._turns_of[guest] = self._turns_of.pop(guest, RequestTurns(uptime))
        if len(self._turns_of) > MAX_GUESTS:
            del self._turns_of[next(iter(self._turns_of))]
        return turns

    @contextmanager
    def _kept(self, request: web.Request) -> Iterator[None]:
        """Protect the connection of a session from being dropped until the answer is sent."""
        connection = request.protocol
        if not isinstance(connection, HttpConnection) or self._served >= MAX_CONNECTIONS:
            yield
            return
        self._served += 1
        connection.kept = True
        try:
            yield
        finally:
            self._served -= 1
            connection.kept = False

    @web.middleware
    async def _our_host_only(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse other host names, against DNS rebinding."""
        name = _name(request.host)
        if name and (name == self._host or is_this_machine(name) or self._serves(name)):
            return await handler(request)
        return web.Response(status=403, text=FORMER if name_of(request) else "unknown host\n")


class Vitals:
    """Metrics and health. GET changes nothing."""

    def __init__(self, metrics: Metrics, mailbox: Mailbox, alive: Health, ready: Health) -> None:
        self._scrape = Scrape(metrics.slices, StateGauges(mailbox, metrics.gauges).text)
        self._alive = alive
        self._ready = ready

    def routes(self, app: web.Application) -> None:
        app.router.add_get("/metrics", self._get_metrics)
        app.router.add_get("/healthz", self._get_health)
        app.router.add_get("/readyz", self._get_ready)

    async def _get_metrics(self, request: web.Request) -> web.Response:
        if of_another_page(request):
            return web.Response(status=403, text="not for other sites\n")
        text = await self._scrape.text()
        return web.Response(body=text, headers={"Content-Type": METRICS_TYPE})

    async def _get_health(self, _request: web.Request) -> web.Response:
        return health_response(self._alive())

    async def _get_ready(self, _request: web.Request) -> web.Response:
        return health_response(self._ready())


class FrontPage:
    """The page at `/`: HTML for browsers, plain text for other clients."""

    def __init__(self, html: str, text: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._html = html
        self._text = text
        self._status = status

    def routes(self, app: web.Application) -> None:
        app.router.add_get("/", self.get)

    async def get(self, request: web.Request) -> web.Response:
        wanted = "text/html" in request.headers.get("Accept", "")
        return web.Response(
            status=self._status,
            text=self._html if wanted else self._text,
            content_type="text/html" if wanted else "text/plain",
            headers={**HEADERS, "Vary": "Accept"},
        )


def html_response(told: ResultPage, headers: Mapping[str, str]) -> web.Response:
    """Return a page as a response with these headers."""
    wait = {"Retry-After": str(math.ceil(told.retry_s))} if told.retry_s else {}
    return web.Response(
        status=told.status,
        text=told.html,
        content_type="text/html",
        headers={**headers, **wait},
    )


class HttpConnection(web.RequestHandler):
    """Never repeats a malformed request in logs or errors, because it may contain a token.

    A `kept` connection belongs to a session and is never dropped to make room.
    """

    __slots__ = ("kept",)

    kept: bool

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        crammed = isinstance(exc, LineTooLong)
        if isinstance(exc, HttpProcessingError):
            exc, message = None, "this is not HTTP\n"
        response = super().handle_error(request, status, exc, message)
        if crammed:  # browsers also send cookies of other ports, which can make a header too long
            response.headers["Clear-Site-Data"] = '"cookies"'
        return response


def _accept(server: web.Server) -> HttpConnection:
    """Accept a connection; if there are too many, drop the oldest unprotected ones."""
    giving_way = [one for one in server.connections if not getattr(one, "kept", False)]
    for oldest in giving_way[: 1 - MAX_CONNECTIONS]:
        oldest.force_close()
    connection = HttpConnection(
        server,
        loop=asyncio.get_running_loop(),
        access_log=None,  # type: ignore[arg-type] # annotated Logger, and None is taken
        keepalive_timeout=KEPT_S,
        auto_decompress=False,  # a small compressed body could expand to a very large one
    )
    connection.kept = False
    return connection


def keep_open(request: web.Request) -> None:
    """Protect the connection of an open page from being dropped."""
    if isinstance(request.protocol, HttpConnection):
        request.protocol.kept = True


def of_another_page(request: web.Request) -> bool:
    """Return True if a page of another site caused the request."""
    site = request.headers.get("Sec-Fetch-Site", "none")
    ours = f"http://{request.host}", f"https://{request.host}"
    return site not in {"none", "same-origin"} or request.headers.get("Origin", ours[0]) not in ours


def name_of(request: web.Request) -> str:
    """Return the host name below localhost in a request, or an empty string for an address."""
    name = _name(request.host)
    return name if name.endswith(BELOW) else ""


def _name(host: str) -> str:
    """Return the name in a Host header, or an empty string."""
    try:
        return "" if "@" in host else urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def health_response(problem: str) -> web.Response:
    """Return a response with the problem, or `ok`."""
    return web.Response(status=503 if problem else 200, text=f"{problem or 'ok'}\n")
