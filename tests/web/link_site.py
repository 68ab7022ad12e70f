"""Decision links over a real engine and real HTTP, at a time that a test sets."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import NamedTuple

import aiohttp
import anyio
from aiohttp import web

from safetyd.cards.request_details import short_digest
from safetyd.clock import Clock
from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Moment
from safetyd.core.events.notification_events import Due, Item, ItemKind
from safetyd.core.events.request_events import Answered
from safetyd.core.policy import Policy
from safetyd.journal.mailbox import Mailbox
from safetyd.notify.links.sent_links import SentLinks
from safetyd.notify.links.tokens import LinkKey, Signer
from safetyd.notify.links.wrong_codes import WrongCodes
from safetyd.operators.contract.history_contract import CommitAnswer, CommitQuestion
from safetyd.web.engine_gateway import EngineGateway
from safetyd.web.link_handler import LinkHandler
from safetyd.web.link_pages import LinkPages, no_history
from tests.captured_connection import work_off
from tests.core.approvals.queue_story import QueueStory
from tests.story import at

Ask = Callable[[str, CommitQuestion], Awaitable[CommitAnswer]]

KEY = LinkKey(kid="a", secret=bytes(range(32)), created=at(0))


def send(
    engine: Engine, id_: str, recipient: str, channel: str, items: tuple[Item, ...], t: float
) -> None:
    """Put a message into the outbox, whoever is configured."""
    due = Due(
        at=at(t),
        t=t,
        delivery=id_,
        recipient=recipient,
        channel=channel,
        urgency="normal",
        items=items,
    )
    engine.outbox._deliveries.add(due, items)


class HandClock(Clock):
    """Shows `t` seconds after noon."""

    def __init__(self) -> None:
        super().__init__()
        self.t = 10.0

    def now(self) -> Moment:
        return Moment(at(self.t), self.t)


class Heard(NamedTuple):
    status: int
    text: str
    headers: dict[str, str]

    @property
    def nonce(self) -> str:
        found = re.search(r'name="n" value="([^"]*)"', self.text)
        return found[1] if found else ""


@asynccontextmanager
async def serving(app: web.Application) -> AsyncIterator[int]:
    """Yield the port that an application listens on."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield int(runner.addresses[0][1])
    await runner.cleanup()


class LinkSite:
    """Letters are opened only while it is at work."""

    def __init__(
        self,
        policy: Policy | None = None,
        public_url: str = "",
        ask: Ask = no_history,
        apps: Sequence[str] = (),
    ) -> None:
        self.queue = QueueStory(policy)
        self.clock = HandClock()
        self.mailbox = Mailbox()
        self.signer = Signer([KEY])
        self.sent_links = SentLinks(self.signer)
        self.problem = ""
        self.waiting = False
        self.steady = 0.0
        self.url = ""
        self.page = ""
        self.used: list[tuple[str, datetime]] = []  # tests whose links were used
        self.purposes: list[str] = []  # what browsers say that they look for
        self._noted = anyio.Event()
        self.link_pages = LinkPages(
            EngineGateway(self.mailbox, lambda: self.problem, lambda: False),
            self.signer,
            self.sent_links,
            lambda _: self.waiting,
            wrong=WrongCodes(),
            used=lambda delivery, when: self.used.append((delivery, when)),
            ask=ask,
        )
        self.decisions = LinkHandler(
            self.link_pages,
            self.clock,
            public_url=public_url,
            apps=lambda: apps,
            now=lambda: self.steady,
        )

    @property
    def engine(self) -> Engine:
        return self.queue.engine

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["LinkSite"]:
        app = web.Application(middlewares=[self._take_note])
        self.decisions.routes(app)
        app.router.add_get("/page", self._get_page)
        async with serving(app) as port, aiohttp.ClientSession() as self._browser:
            self.url = f"http://127.0.0.1:{port}"
            yield self

    @web.middleware
    async def _take_note(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        self.purposes.append(request.headers.get("Sec-Purpose", ""))
        self._noted.set()
        return await handler(request)

    async def looked_at(self, *purposes: str) -> None:
        """Return once browsers have looked for each of these purposes."""
        while not set(purposes) <= set(self.purposes):
            self._noted = anyio.Event()
            await self._noted.wait()

    async def _get_page(self, _request: web.Request) -> web.Response:
        """Show any page at our own address, as a reader of mail on the web would."""
        return web.Response(text=self.page, content_type="text/html")

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator["LinkSite"]:
        async with self.listening(), anyio.create_task_group() as tasks:
            tasks.start_soon(self.work)
            yield self
            tasks.cancel_scope.cancel()

    async def work(self) -> None:
        while True:
            await self.mailbox.wait()
            self.write()

    def write(self) -> None:
        self.queue.journal += work_off(self.mailbox, self.engine, self.clock)

    def asks(self, **fields: object) -> str:
        """Return the id of a new request."""
        request_id = self.queue.asks(0, **fields).request_id  # type: ignore[arg-type]
        assert request_id is not None
        return request_id

    def tells(
        self,
        *request_ids: str,
        recipient: str = "alice",
        channel: str = "email",
        delivery: str = "dlv_1",
        kind: ItemKind = "request",
    ) -> str:
        """Send a message about requests; return the token of the first."""
        items = tuple(Item(kind, id_) for id_ in request_ids)
        send(self.engine, delivery, recipient, channel, items, self.clock.t)
        self.sent_links.note(delivery, recipient)
        return self.signer.token(delivery, request_ids[0], recipient)

    def code(self, request_id: str, recipient: str = "alice") -> str:
        return self.signer.code(request_id, recipient)

    async def hears(self, method: str, token: str, **sent: object) -> Heard:
        request = self._browser.request(method, f"{self.url}/d/{token}", **sent)  # type: ignore[arg-type]
        async with request as response:
            return Heard(response.status, await response.text(), dict(response.headers))

    async def get(self, token: str) -> Heard:
        return await self.hears("GET", token)

    def nonce(self, token: str) -> str:
        """Return the nonce of a page that was opened now, or would be if it had a form."""
        token_id = self.signer.check(token)
        return "" if token_id is None else self.signer.nonce(token_id, at(self.clock.t))

    async def post(self, token: str, answer: str, code: str = "", **fields: str) -> Heard:
        """Answer as the page would."""
        data = {"v": answer, "n": self.nonce(token), "c": code, **fields}
        return await self.hears("POST", token, data=data)

    def button(self, token: str, request_id: str, value: str, code: str = "") -> dict[str, str]:
        """Return the form of a button in the message with this link."""
        token_id, request = self.signer.check(token), self.engine.approvals.find(request_id)
        assert token_id is not None
        assert request is not None
        said = {"approve": "approved", "deny": "denied"}[value]
        nonce = self.signer.button(token_id, said, short_digest(request.asked.digest))
        return {"v": value, "n": nonce, "c": code}

    def answers(self) -> list[Answered]:
        return [event for event in self.queue.journal if isinstance(event, Answered)]
