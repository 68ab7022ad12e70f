"""HTTP listeners, what every scraper asks (metrics and health), and the page at `/`."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from http import HTTPStatus
from ipaddress import IPv4Network, ip_address
from typing import Annotated, Final, cast
from urllib.parse import urlsplit

import msgspec
from aiohttp import web
from aiohttp.http import HttpProcessingError
from msgspec import Meta

from safetyd.clock import uptime
from safetyd.host import is_this_machine, netloc
from safetyd.monitoring.metrics import Metrics
from safetyd.web.pages.page_frame import HEADERS
from safetyd.web.scrape import Scrape
from safetyd.web.throttle import RequestTurns

DEFAULT_PORT: Final = 8787
MAX_CONNECTIONS: Final = 64
KEPT_S: Final = 15.0
SHARED: Final = IPv4Network("100.64.0.0/10")  # what private networks of VPNs use
LATER: Final = {"Retry-After": "1"}
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Health = Callable[[], str]  # what is wrong, or nothing
Routes = Callable[[web.Application], None]  # adds paths
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class WebConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    # 0: any that is free; None: the default, or any that is free if that is taken
    port: Annotated[int, Meta(ge=0, le=65535)] | None = None
    public_url: str = ""  # what links begin with; empty: the address of this listener
    allow_http: bool = False  # links without encryption, to a private network only
    links_host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"  # with public_url
    links_port: Annotated[int, Meta(ge=0, le=65535)] = 8788

    @property
    def first_port(self) -> int:
        """Return the port that is tried first."""
        return DEFAULT_PORT if self.port is None else self.port


def web_problems(config: WebConfig) -> Iterator[str]:
    """Yield what is wrong with where links lead."""
    if not config.public_url:
        return
    parts = urlsplit(config.public_url)
    shown = f"web.public_url is {config.public_url!r}"
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        yield f"{shown}; it must be an address such as https://safety.example.com"
    elif parts.scheme == "http" and not _near(parts.hostname, private=config.allow_http):
        yield f"{shown}; http:// is for this machine, or with allow_http a private network"


def _near(host: str, *, private: bool) -> bool:
    """Say whether a host is this machine or, if that is enough, in a private network."""
    return is_this_machine(host) or (private and _is_private(host))


def _is_private(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return False
    shared = address.version == 4 and address in SHARED  # noqa: PLR2004 - of IP
    return address.is_private or shared


class Listener:
    """Serves some paths until it is stopped, under its own names only."""

    def __init__(
        self, host: str, port: int, routes: Sequence[Routes], names: Iterable[str] = ()
    ) -> None:
        self._host = host
        self._port = port
        self._routes = routes
        self._turns = RequestTurns(uptime)
        self._names = frozenset({host, *names})
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None

    async def start(self, port: int | None = None) -> str:
        """Listen on the port given or configured, any if it is 0, and return the address."""
        app = web.Application(
            middlewares=[self._in_turn, self._our_host_only], client_max_size=64 * 1024
        )
        for add in self._routes:
            add(app)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        server = cast("web.Server", self._runner.server)  # there is one after the set-up
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            partial(_accept, server), self._host, self._port if port is None else port
        )
        name, number = self._listener.sockets[0].getsockname()[:2]
        return f"http://{netloc(name, number)}"

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _in_turn(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let nobody who asks without end, and any web page can, take the time of agents."""
        wait = self._turns.take()
        if wait is None:
            return web.Response(status=429, text="too many requests\n", headers=LATER)
        if wait:
            await asyncio.sleep(wait)
        return await handler(request)

    @web.middleware
    async def _our_host_only(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse other names, so that no web page can reach us by rebinding its own."""
        name = _name(request.host)
        if name is None or not (name in self._names or is_this_machine(name)):
            return web.Response(status=403, text="unknown host\n")
        return await handler(request)


class Vitals:
    """What scrapers and supervisors ask. GET never changes anything."""

    def __init__(self, metrics: Metrics, alive: Health, ready: Health) -> None:
        self._scrape = Scrape(metrics.slices)
        self._alive = alive
        self._ready = ready

    def routes(self, app: web.Application) -> None:
        app.router.add_get("/metrics", self._get_metrics)
        app.router.add_get("/healthz", self._get_health)
        app.router.add_get("/readyz", self._get_ready)

    async def _get_metrics(self, request: web.Request) -> web.Response:
        if _of_another_page(request):
            return web.Response(status=403, text="not for other sites\n")
        text = await self._scrape.text()
        return web.Response(body=text, headers={"Content-Type": METRICS_TYPE})

    async def _get_health(self, _request: web.Request) -> web.Response:
        return _told(self._alive())

    async def _get_ready(self, _request: web.Request) -> web.Response:
        return _told(self._ready())


class FrontPage:
    """What stands at `/`: a page for browsers, plain text for all others."""

    def __init__(self, html: str, text: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._html = html
        self._text = text
        self._status = status

    def routes(self, app: web.Application) -> None:
        app.router.add_get("/", self._get)

    async def _get(self, request: web.Request) -> web.Response:
        wanted = "text/html" in request.headers.get("Accept", "")
        return web.Response(
            status=self._status,
            text=self._html if wanted else self._text,
            content_type="text/html" if wanted else "text/plain",
            headers={**HEADERS, "Vary": "Accept"},
        )


class HttpConnection(web.RequestHandler):
    """Repeats nothing of what is not HTTP, in the log or to the peer: a token may be in it."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if isinstance(exc, HttpProcessingError):
            exc, message = None, "this is not HTTP\n"
        return super().handle_error(request, status, exc, message)


def _accept(server: web.Server) -> HttpConnection:
    """Take a connection; of too many the oldest, which may never have asked, gives way."""
    for oldest in server.connections[: 1 - MAX_CONNECTIONS]:
        oldest.force_close()
    return HttpConnection(
        server,
        loop=asyncio.get_running_loop(),
        access_log=None,  # type: ignore[arg-type] # annotated Logger, and None is taken
        keepalive_timeout=KEPT_S,
        auto_decompress=False,  # a few bytes could become very many
    )


def _of_another_page(request: web.Request) -> bool:
    """Say whether a browser asks for a page that is not ours; no other program says so."""
    site = request.headers.get("Sec-Fetch-Site", "none")
    ours = f"http://{request.host}", f"https://{request.host}"
    return site not in {"none", "same-origin"} or request.headers.get("Origin", ours[0]) not in ours


def _name(host: str) -> str | None:
    """Return the name in a Host header, None if there is none to be found."""
    try:
        return None if "@" in host else urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _told(problem: str) -> web.Response:
    return web.Response(status=503 if problem else 200, text=f"{problem or 'ok'}\n")
