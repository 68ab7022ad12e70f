"""The daemon's HTTP listeners: the main one and, with `public_url`, another for links."""

import errno
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from safetyd.agents.sender_accounts import SenderAccounts
from safetyd.bus.keyring import KeyUnusable
from safetyd.clock import Clock
from safetyd.core.approvals.request import Request
from safetyd.host import Unusable, netloc, write_whole
from safetyd.journal.mailbox import Plan
from safetyd.monitoring.metrics import Metrics
from safetyd.notify.channel import Answer
from safetyd.notify.notifier import Notifier
from safetyd.operators.contract.history_contract import CommitAnswer, CommitQuestion
from safetyd.web.api import Api
from safetyd.web.engine_gateway import EngineGateway
from safetyd.web.forms import origin_of
from safetyd.web.http_server import FrontPage, Guest, Health, Listener, Routes, Serves, Vitals
from safetyd.web.link_handler import LinkHandler
from safetyd.web.link_pages import LinkPages, no_history
from safetyd.web.pages.front_page import links_page, links_text
from safetyd.web.web_config import WebConfig

PORT_FILE: Final = "web-port"
UNPRIVILEGED: Final = range(1024, 65536)

log = logging.getLogger("safetyd.web")


class Site:
    """`web` and `links` are the listeners' addresses once started; `room` is the control room.

    `link_pages` also serves relays.

    If the default port was in use, the chosen port is stored in `directory`.
    """

    def __init__(  # noqa: PLR0913 - each is another part of the daemon
        self,
        config: WebConfig,
        bearer: Callable[[], str],
        metrics: Metrics,
        gateway: EngineGateway,
        notifier: Notifier,
        clock: Clock,
        *,
        directory: Path,
        room: Sequence[Routes],
        guest: Guest = lambda _request: "",
        accounts: SenderAccounts | None = None,
        serves: Serves = lambda _name: False,
        waits: Callable[[Request], bool],
        alive: Health,
        ready: Health,
        api: Sequence[Routes] = (),
        ask: Callable[[str, CommitQuestion], Awaitable[CommitAnswer]] = no_history,
    ) -> None:
        self._config = config
        self._port_file = directory / PORT_FILE
        public = config.public_url.rstrip("/")
        self.link_pages = LinkPages(
            gateway,
            notifier.links.signer,
            notifier.links.sent_links,
            waits,
            wrong=notifier.links.wrong_codes,
            used=notifier.link_used,
            ask=ask,
        )
        decisions = LinkHandler(
            self.link_pages,
            clock,
            public_url=public,
            apps=lambda: {origin_of(url) for url in notifier.app_urls()},
        )
        _check(bearer)
        accounts = SenderAccounts() if accounts is None else accounts
        vitals = Vitals(metrics, gateway.mailbox, alive, ready, accounts.said)
        own = [vitals.routes, Api(bearer, gateway, api, guest).routes, *room]
        linked = [decisions.routes, _hooks(gateway, notifier)]
        served = own if public else [*own, *linked]
        self._own = Listener(
            config.host,
            config.first_port,
            served,
            lambda name: name in config.names or serves(name),
            guest,
            both=config.has_names,
            accounts=accounts,
        )
        name = urlsplit(public).hostname
        nothing = FrontPage(links_page(), links_text(), HTTPStatus.NOT_FOUND).routes
        self._linked = (
            Listener(
                config.links_host,
                config.links_port,
                [*linked, nothing],
                lambda host: host == name,
                accounts=accounts,
            )
            if public
            else None
        )
        self._public = public
        self.web = self.links = ""

    @property
    def base_url(self) -> str:
        """Return the base URL of decision links: the public one, or the listener's."""
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
        """Listen and return the address. If the default port is in use, find another.

        Later starts try that port first, because open pages and links lead there.
        """
        config, ports = self._config, self._ports()
        for port in ports:
            try:
                web = await self._own.start(port)
            except OSError as exc:
                if exc.errno != errno.EADDRINUSE or port == ports[-1]:
                    raise _taken(config.host, port, "port", exc) from exc
                log.warning("port %d is in use; the web server uses another port", port)
            else:
                break
        if not port and config.port is None:
            with suppress(OSError):  # otherwise the next start chooses a port again
                write_whole(self._port_file, f"{urlsplit(web).port}\n".encode())
        return web

    def _ports(self) -> tuple[int, ...]:
        """Return the ports to try. Without a configured port, the last one is 0: any free port."""
        config = self._config
        if config.port is not None:
            return (config.port,)
        try:
            kept = int(self._port_file.read_text())
        except (OSError, ValueError):
            kept = 0
        return (*((kept,) if kept in UNPRIVILEGED else ()), config.first_port, 0)

    async def _listen_for_links(self, linked: Listener) -> str:
        config = self._config
        try:
            return await linked.start()
        except OSError as exc:
            raise _taken(config.links_host, config.links_port, "links_port", exc) from exc


def _hooks(gateway: EngineGateway, notifier: Notifier) -> Routes:
    """Return the routes that providers of channels post to."""

    async def carry_out(plan: Plan[Answer]) -> Answer:
        return (await gateway.carry_out(plan, lambda _engine, _moment: None))[0]

    def routes(app: web.Application) -> None:
        for hook in notifier.hooks(carry_out):
            app.router.add_post(hook.path, hook.handle)

    return routes


def _check(bearer: Callable[[], str]) -> None:
    try:
        bearer()
    except (OSError, KeyUnusable) as exc:
        raise Unusable(f"the operator's token cannot be used: {exc}") from exc


def _taken(host: str, port: int, setting: str, exc: OSError) -> Unusable:
    where = exc.filename or netloc(host, port)
    return Unusable(
        f"cannot listen on {where} ({exc.strerror}): end the program that uses it, "
        f"or set `{setting}` in [web] (0: any free port)"
    )
