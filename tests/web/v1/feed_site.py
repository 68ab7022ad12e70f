"""The feed over real audit files, fed as the journal feeds it."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio

from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.event import Event
from safetyd.core.messages.telemetry import Heartbeat
from safetyd.journal.audit import Audit
from safetyd.journal.mailbox import Mailbox
from safetyd.monitoring.recent_events import RecentEvents
from safetyd.web.api import Api
from safetyd.web.engine_gateway import EngineGateway
from safetyd.web.http_server import Listener
from safetyd.web.v1.event_socket import EventSocket
from tests.story import at, report
from tests.web.v1.question_site import BEARER

FEED = "/api/feed"
AUTHORIZED = {"Authorization": f"Bearer {BEARER}"}


def told(seq: int, agent: str = "code", event_type: str = "AGENT_PAUSED", text: str = "") -> Event:
    return SafetyEvent(
        seq=seq,
        at=at(seq),
        t=float(seq),
        id=f"e{seq}",
        timestamp=at(seq),
        event_type=event_type,
        agent_id=agent,
        reason=text or f"the {seq}th",
        metadata={"by": "alice"},
    )


def untold(seq: int) -> Event:
    """Return a journalled event that notifies nobody."""
    event = report(seq, Heartbeat())
    event.seq = seq
    return event


class FeedSite:
    """`before` events of before the start are in the audit files only."""

    def __init__(self, directory: Path, before: int = 0, max_bytes: int = 64 * 1024) -> None:
        self.audit = Audit(directory / "audit", max_bytes)
        self.audit.open()
        for seq in range(self.audit.seq + 1, before + 1):
            self._write(told(seq))
        self.recent = RecentEvents(self.audit.seq, lambda seq: ((), seq))
        self.socket = EventSocket(self.recent, directory / "audit", lambda: self.audit.seq)
        gateway = EngineGateway(Mailbox(), str, bool)
        self.api = Api(lambda: BEARER, gateway, [self.socket.routes])
        self._listener = Listener("127.0.0.1", 0, [self.api.routes])
        self.url = ""

    def happens(self, *events: Event) -> None:
        """Journal events as one batch, then publish them."""
        for event in events:
            self._write(event)
        self.recent.observe(events)

    def goes_on(self, count: int, *, text: str = "") -> None:
        """Publish so many more events, each in its own batch."""
        for _ in range(count):
            self.happens(told(self.audit.seq + 1, text=text))

    @property
    def open_feeds(self) -> int:
        return len(self.socket._feeds)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["FeedSite"]:
        self.url = await self._listener.start() + FEED
        async with aiohttp.ClientSession() as self._browser:
            yield self
        await self._listener.stop()

    async def stop(self) -> None:
        await self._listener.stop()

    @asynccontextmanager
    async def feed(self, query: str = "") -> AsyncIterator["Reader"]:
        async with self._browser.ws_connect(
            self.url + query, headers=AUTHORIZED, max_msg_size=0
        ) as socket:
            yield Reader(socket)

    async def get(
        self, query: str = "", headers: Mapping[str, str] = AUTHORIZED
    ) -> tuple[int, dict[str, Any]]:
        """Ask as something that is no WebSocket, or whose handshake is refused."""
        async with self._browser.get(self.url + query, headers=headers) as response:
            return response.status, json.loads(await response.text())

    def _write(self, event: Event) -> None:
        self.audit.append([encode(event)], event.seq)


class Reader:
    """A reader of the feed; `end` is the reason for its end."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.end: tuple[int | None, str] | None = None

    @property
    def seq(self) -> int:
        """The event after which the feed begins."""
        return int(self.socket._response.headers["Safetyd-Seq"])

    async def event(self) -> dict[str, Any]:
        with anyio.fail_after(10):
            message = await self.socket.receive()
        assert message.type is aiohttp.WSMsgType.TEXT, message
        return dict(json.loads(message.data))

    async def seqs(self, count: int) -> list[int]:
        return [(await self.event())["seq"] for _ in range(count)]

    async def rest(self) -> list[int]:
        """Return the events until the feed ends."""
        seqs: list[int] = []
        with anyio.fail_after(30):
            while (message := await self.socket.receive()).type is aiohttp.WSMsgType.TEXT:
                seqs.append(json.loads(message.data)["seq"])
        self.end = self.socket.close_code, str(message.extra or "")
        return seqs
