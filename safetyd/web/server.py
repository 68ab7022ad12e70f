"""The HTTP listener: metrics and health."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Final, cast
from urllib.parse import urlsplit

import msgspec
from aiohttp import web
from msgspec import Meta

from safetyd.metrics import Metrics

MAX_CONNECTIONS: Final = 64
KEPT_S: Final = 15.0
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Health = Callable[[], str]  # what is wrong, or nothing


class WebConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8787  # 0: any that is free


class WebServer:
    """Serves until it is stopped. GET never changes anything."""

    def __init__(self, config: WebConfig, metrics: Metrics, alive: Health, ready: Health) -> None:
        self._config = config
        self._metrics = metrics
        self._alive = alive
        self._ready = ready
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None

    async def start(self, port: int | None = None) -> str:
        """Listen on the port given or configured, any if it is 0, and return the address."""
        app = web.Application(middlewares=[self._our_host_only], client_max_size=64 * 1024)
        app.router.add_get("/metrics", self._get_metrics)
        app.router.add_get("/healthz", self._get_health)
        app.router.add_get("/readyz", self._get_ready)
        self._runner = web.AppRunner(app, access_log=None, keepalive_timeout=KEPT_S)
        await self._runner.setup()
        server = cast("web.Server", self._runner.server)  # there is one after the set-up
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            partial(_accept, server), self._config.host, self._config.port if port is None else port
        )
        name, number = self._listener.sockets[0].getsockname()[:2]
        return f"http://{f'[{name}]' if ':' in name else name}:{number}"

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _our_host_only(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Refuse other names, so that no web page can reach us by rebinding its own."""
        ours = {"localhost", "127.0.0.1", "::1", self._config.host}
        if _name(request.host) not in ours:
            return web.Response(status=403, text="unknown host\n")
        return await handler(request)

    async def _get_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.render(), headers={"Content-Type": METRICS_TYPE})

    async def _get_health(self, _request: web.Request) -> web.Response:
        return _told(self._alive())

    async def _get_ready(self, _request: web.Request) -> web.Response:
        return _told(self._ready())


def _accept(server: web.Server) -> web.RequestHandler:
    """Take a connection; of too many the oldest, which may never have asked, gives way."""
    for oldest in server.connections[: 1 - MAX_CONNECTIONS]:
        oldest.force_close()
    return server()


def _name(host: str) -> str | None:
    """Return the name in a Host header, None if there is none to be found."""
    try:
        return None if "@" in host else urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _told(problem: str) -> web.Response:
    return web.Response(status=503 if problem else 200, text=f"{problem or 'ok'}\n")
