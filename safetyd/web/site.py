"""The daemon's HTTP side, put together: one listener, or with `public_url` one more for links."""

import errno
import logging
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import urlsplit

from safetyd.bus.keyring import KeyUnusable
from safetyd.clock import Clock
from safetyd.core.approvals.request import Request
from safetyd.host import Unusable
from safetyd.monitoring.metrics import Metrics
from safetyd.notify.notifier import Notifier
from safetyd.web.api import Api
from safetyd.web.engine_gateway import EngineGateway
from safetyd.web.http_server import FrontPage, Health, Listener, Vitals, WebConfig
from safetyd.web.link_handler import LinkHandler
from safetyd.web.pages.front_page import front_page, front_text, links_page, links_text
from safetyd.web.twilio_hooks import TwilioHooks

log = logging.getLogger("safetyd.web")


class Site:
    """`web` and `links` are the addresses, once it has started."""

    def __init__(  # noqa: PLR0913 - each is another part of the daemon
        self,
        config: WebConfig,
        bearer: Callable[[], str],
        metrics: Metrics,
        gateway: EngineGateway,
        notifier: Notifier,
        clock: Clock,
        *,
        waits: Callable[[Request], bool],
        alive: Health,
        ready: Health,
    ) -> None:
        self._config = config
        public = config.public_url.rstrip("/")
        decisions = LinkHandler(
            gateway,
            notifier.links.signer,
            notifier.links.sent_links,
            waits,
            clock,
            public_url=public,
            used=notifier.link_used,
        )
        hooks = TwilioHooks(gateway, notifier.twilio, notifier.links.signer, waits)
        own = [Vitals(metrics, alive, ready).routes, Api(_usable(bearer), gateway).routes]
        own.append(FrontPage(front_page(), front_text()).routes)
        linked = [decisions.routes, hooks.routes]
        self._own = Listener(config.host, config.first_port, own if public else [*own, *linked])
        name = urlsplit(public).hostname or ""
        nothing = FrontPage(links_page(), links_text(), HTTPStatus.NOT_FOUND).routes
        self._linked = (
            Listener(config.links_host, config.links_port, [*linked, nothing], [name])
            if public
            else None
        )
        self._public = public
        self.web = self.links = ""

    @property
    def base_url(self) -> str:
        """Return where decision links lead: the public address, or this machine's own."""
        return self._public or self.web

    async def start(self) -> None:
        self.web = await self._listen()
        if self._linked is not None:
            self.links = await self._listen_for_links(self._linked)

    async def stop(self) -> None:
        await self._own.stop()
        if self._linked is not None:
            await self._linked.stop()

    async def _listen(self) -> str:
        """Return the address; a port that nobody chose gives way if it is taken."""
        config = self._config
        try:
            return await self._own.start()
        except OSError as exc:
            if exc.errno == errno.EADDRINUSE and config.port is None:
                taken = config.first_port
                log.warning("port %d is taken; another one is used for the web", taken)
                return await self._own.start(0)
            raise _taken(config.host, config.first_port, "port", exc) from exc

    async def _listen_for_links(self, linked: Listener) -> str:
        config = self._config
        try:
            return await linked.start()
        except OSError as exc:
            raise _taken(config.links_host, config.links_port, "links_port", exc) from exc


def _usable(bearer: Callable[[], str]) -> str:
    try:
        return bearer()
    except (OSError, KeyUnusable) as exc:
        raise Unusable(f"the operator's token cannot be used: {exc}") from exc


def _taken(host: str, port: int, setting: str, exc: OSError) -> Unusable:
    return Unusable(
        f"cannot listen on {host}:{port} ({exc.strerror}): end what uses it, or set `{setting}` "
        "in [web] of the file given with --config, 0 for any"
    )
