"""The feed: SafetyEvents from now on or after a given event, each once and in order.

Only durable events are sent. A slow reader gets older events from the audit files; a reader that
stops reading is disconnected. The journal never waits for readers.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import anyio
import msgspec
from aiohttp import WSCloseCode, web
from msgspec import Meta

from safetyd.clock import uptime
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.journal.audit_reading import RESTS
from safetyd.monitoring.published_events import published
from safetyd.monitoring.recent_events import RecentEvents, Subscription
from safetyd.web.http_connection import connection_of
from safetyd.web.v1.event_replay import EventReplay
from safetyd.web.v1.http_refusals import (
    HttpRefusal,
    refusal_response,
    refuse_other_sites,
)
from safetyd.web.v1.query_parameters import read_parameters

MAX_FEEDS: Final = 24
HEARTBEAT_S: Final = 20.0
SLOW_S: Final = 10.0  # a reader must receive a batch of events within this time
CLOSE_S: Final = 2.0
TURN: Final = 50  # events sent at a time, which takes less than a millisecond
LOOK: Final = 1000  # events filtered at a time; most are decisions, which cost little
REST_S: Final = 0.1  # pause between batches, so that many readers of a busy daemon cost little
MAX_HEARD_BYTES: Final = 1024
MAX_REASON: Final = 120  # characters of a close reason; the protocol allows 123 bytes
SEQ_HEADER: Final = "Safetyd-Seq"

_encode = msgspec.json.Encoder().encode


class FeedQuestion(msgspec.Struct, kw_only=True):
    """Events after `after`, or from now on."""

    after: Annotated[int, Meta(ge=0)] | None = None  # the last event that is already known
    agent: str | None = None  # only of this agent
    event_type: str | None = None  # only of this type, such as EMERGENCY_STOP

    def wants(self, event: SafetyEvent) -> bool:
        return self.agent in {None, event.agent_id} and self.event_type in {None, event.event_type}


class End(NamedTuple):
    """The reason why a feed ends."""

    code: WSCloseCode
    reason: str


class EventSocket:
    """/api/feed. The audit files are in `directory`; `newest` returns the last event's number."""

    def __init__(self, recent: RecentEvents, directory: Path, newest: Callable[[], int]) -> None:
        self._recent = recent
        self._replay = EventReplay(directory)
        self._newest = newest
        self._feeds: set[Feed] = set()

    def routes(self, app: web.Application) -> None:
        app.router.add_get("/feed", self._get, allow_head=False)
        app.on_shutdown.append(self._shut_down)

    async def _get(self, request: web.Request) -> web.StreamResponse:
        try:
            refuse_other_sites(request)
            asked = read_parameters(FeedQuestion, request)
            await self._check(asked)
            socket = self._socket(request)
        except HttpRefusal as exc:
            return refusal_response(exc.refusal)
        feed = Feed(socket, self._recent.subscribe(asked.after), self._replay, asked)
        self._feeds.add(feed)
        if (connection := connection_of(request)) is not None:
            connection.keep_open()
        try:
            await feed.run(request)
        finally:
            self._feeds.discard(feed)
        return socket

    async def _check(self, asked: FeedQuestion) -> None:
        if asked.after is None:
            return
        if asked.after > self._newest():
            error = f"after is {asked.after}, but the newest event is {self._newest()}"
            raise HttpRefusal("invalid", error)
        try:
            later = await self._replay.gap(asked.after)
        except OSError as exc:
            raise HttpRefusal("unreadable", f"the audit files cannot be read: {exc}") from exc
        if later:
            error = f"events after {asked.after} are missing; resume with after={later}"
            raise HttpRefusal("gone", error)

    def _socket(self, request: web.Request) -> web.WebSocketResponse:
        if len(self._feeds) >= MAX_FEEDS:
            raise HttpRefusal("rate_limit", f"{MAX_FEEDS} feeds are open already; close one")
        socket = web.WebSocketResponse(
            heartbeat=HEARTBEAT_S, compress=False, max_msg_size=MAX_HEARD_BYTES, timeout=CLOSE_S
        )
        if not socket.can_prepare(request):
            raise HttpRefusal("upgrade_required", "this is a WebSocket: send an upgrade request")
        return socket

    async def _shut_down(self, _app: web.Application) -> None:
        for feed in tuple(self._feeds):
            feed.end(WSCloseCode.GOING_AWAY, "safetyd is stopping")


class Feed:
    """One reader. `seq` is the last event handed to the connection."""

    def __init__(
        self,
        socket: web.WebSocketResponse,
        subscription: Subscription,
        replay: EventReplay,
        asked: FeedQuestion,
    ) -> None:
        self._socket = socket
        self._subscription = subscription
        self._replay = replay
        self._asked = asked
        self._scope = anyio.CancelScope()
        self._end: End | None = None
        self.seq = subscription.seq

    async def run(self, request: web.Request) -> None:
        """Send events until either side ends the feed."""
        self._socket.headers[SEQ_HEADER] = str(self.seq)
        await self._socket.prepare(request)
        with self._scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._listen)
                tasks.start_soon(self._tell)
        if self._end is not None:
            with anyio.move_on_after(CLOSE_S, shield=True):
                await self._socket.close(code=self._end.code, message=self._end.reason.encode())
        left = request.transport
        if isinstance(left, asyncio.Transport) and left.get_write_buffer_size():
            left.abort()  # unread bytes would stay in memory

    def end(self, code: WSCloseCode, reason: str) -> None:
        """Close the feed, and say after which event the reader can resume."""
        if self._end is None:
            self._end = End(code, f"{reason}; resume with after={self.seq}"[:MAX_REASON])
        self._scope.cancel()

    async def _listen(self) -> None:
        """Return when the reader disconnects, or sends anything."""
        message = await self._socket.receive()
        if message.type in {web.WSMsgType.TEXT, web.WSMsgType.BINARY}:
            self.end(WSCloseCode.POLICY_VIOLATION, "this feed accepts no messages")
        self._scope.cancel()

    async def _tell(self) -> None:
        try:
            while True:
                await self._subscription.wait()
                await self._turn()
        except ConnectionError:
            self._scope.cancel()
        except OSError as exc:
            self.end(WSCloseCode.INTERNAL_ERROR, f"audit files: {exc.strerror}")

    async def _turn(self) -> None:
        """Send new events, starting with those that are only in the audit files."""
        taken = self._subscription.take(LOOK)
        if taken.missed is not None:
            async with aclosing(self._replay.events(taken.missed)) as slices:
                async for found in slices:
                    await self._send(found.events)
            self.seq = taken.missed.until
        await self._send([event for event in taken.events if type(event) is SafetyEvent])
        self.seq = self._subscription.seq
        await anyio.sleep(REST_S if len(taken.events) < LOOK else 0.0)

    async def _send(self, events: Sequence[SafetyEvent]) -> None:
        """Send a few events at a time, with pauses for agents."""
        wanted = list(filter(self._asked.wants, events))
        for start in range(0, len(wanted), TURN):
            begun = uptime()
            with anyio.move_on_after(SLOW_S) as slow:
                for event in wanted[start : start + TURN]:
                    self.seq = event.seq  # set first: a close frame would come after this event
                    await self._socket.send_str(frame(event))
            if slow.cancelled_caught:
                self.end(WSCloseCode.TRY_AGAIN_LATER, "too slow")
            await anyio.sleep(min(RESTS * (uptime() - begun), REST_S))


def frame(event: SafetyEvent) -> str:
    """Return a SafetyEvent as JSON: the fields of the contract and the event's number."""
    return _encode({"seq": event.seq, **published(event)}).decode()
