"""HTTP listeners, metrics and health, and the page at `/`."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from safetyd.agents.sender_accounts import OverLimit, Sender, SenderAccounts
from safetyd.host import is_this_machine, netloc
from safetyd.journal.mailbox import Mailbox
from safetyd.monitoring.metrics import Metrics
from safetyd.web.http_connection import connection_of, connections, cut_off, peer_account
from safetyd.web.loopback import BELOW, listen_on_both
from safetyd.web.pages.page_frame import HEADERS
from safetyd.web.pages.result_pages import ResultPage
from safetyd.web.scrape import Scrape, StateGauges

LATER: Final = {"Retry-After": "1"}
FORMER: Final = "this host name is from before the daemon restarted: run `safetyd open`\n"
_ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - not bound here
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Health = Callable[[], str]  # the problem, or an empty string
Guest = Callable[[web.Request], str]  # the account of a session or token, or an empty string
Routes = Callable[[web.Application], None]  # adds paths
Serves = Callable[[str], bool]  # returns True if a host name is ours
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Listener:
    """Serves some paths under its own host names.

    With `both` it listens on both loopback addresses, or does not start. Requests with a session
    or token (`guest`) have their own account, and are never dropped to make room.
    """

    def __init__(  # noqa: PLR0913 - what it serves, and to whom
        self,
        host: str,
        port: int,
        routes: Sequence[Routes],
        serves: Serves = lambda _name: False,
        guest: Guest = lambda _request: "",
        *,
        both: bool = False,
        accounts: SenderAccounts | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._routes = routes
        self._guest = guest
        self._accounts = SenderAccounts() if accounts is None else accounts
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
        accept = connections(self._runner.server, self._accounts)
        await self._listen(accept, self._port if port is None else port)
        name, number = self._servers[0].sockets[0].getsockname()[:2]
        return f"http://{netloc(_ANY.get(name, name), number)}"

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _listen(self, accept: Callable[[], asyncio.Protocol], port: int) -> None:
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
        if not guest:
            cut_off(request)
        try:
            wait = self._accounts.turn(Sender(guest or peer_account(request)))
        except OverLimit as exc:
            return web.Response(status=429, text=f"{exc}\n", headers=LATER)
        # Others that send no body are answered within seconds, so that health checks get through.
        connection = connection_of(request) if guest or not request.body_exists else None
        with nullcontext() if connection is None else connection.protected(guest):
            if wait:
                await asyncio.sleep(wait)
            return await handler(request)

    @web.middleware
    async def _our_host_only(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse other host names, against DNS rebinding."""
        name = _name(request.host)
        if name and (name == self._host or is_this_machine(name) or self._serves(name)):
            return await handler(request)
        return web.Response(status=403, text=FORMER if name_of(request) else "unknown host\n")


class Vitals:
    """Metrics and health. GET changes nothing.

    `over` returns a sentence on each sender that is over a limit.
    """

    def __init__(
        self,
        metrics: Metrics,
        mailbox: Mailbox,
        alive: Health,
        ready: Health,
        over: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._scrape = Scrape(metrics.slices, StateGauges(mailbox, metrics.gauges).text)
        self._alive = alive
        self._ready = ready
        self._over = over

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
        return health_response(self._alive(), self._over())

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


def health_response(problem: str, more: Sequence[str] = ()) -> web.Response:
    """Return a response with the problem, or `ok`, and more lines."""
    text = "".join(f"{line}\n" for line in (problem or "ok", *more))
    return web.Response(status=503 if problem else 200, text=text)
