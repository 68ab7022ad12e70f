"""The HTTP listener: metrics and health."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
from aiohttp import web
from msgspec import Meta

from safetyd.metrics import Metrics

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

    async def start(self) -> str:
        """Listen, and return the address."""
        app = web.Application(middlewares=[self._our_host_only], client_max_size=64 * 1024)
        app.router.add_get("/metrics", self._get_metrics)
        app.router.add_get("/healthz", self._get_health)
        app.router.add_get("/readyz", self._get_ready)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._config.host, self._config.port)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    async def stop(self) -> None:
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


def _name(host: str) -> str | None:
    """Return the name in a Host header, None if there is none to be found."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _told(problem: str) -> web.Response:
    return web.Response(status=503 if problem else 200, text=f"{problem or 'ok'}\n")
