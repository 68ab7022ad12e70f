"""The WebSocket that updates an open page.

A browser opens only six HTTP/1.1 connections to a host, for all tabs together. The event streams of
six tabs would use up all six connections and delay STOP. WebSockets do not count.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import anyio
from aiohttp import WSCloseCode, web

from safetyd.web.control_room.live_pages import PageReader, message
from safetyd.web.control_room.room_rendering import personal_bytes

BEAT_S: Final = 1.0
HEARTBEAT_S: Final = 20.0
CLOSE_S: Final = 0.1  # enough to send the close frame; the reply does not matter
MAX_HEARD_BYTES: Final = 1024


class LiveSocket:
    """Sends changes of a page, and a heartbeat each second, while `may` returns True."""

    def __init__(self, may: Callable[[], bool], now: Callable[[], str], token: str) -> None:
        self._may = may
        self._now = now
        self._token = token
        self._scope = anyio.CancelScope()
        self._socket = web.WebSocketResponse(
            heartbeat=HEARTBEAT_S, compress=False, max_msg_size=MAX_HEARD_BYTES, timeout=CLOSE_S
        )

    def can_run(self, request: web.Request) -> bool:
        return bool(self._socket.can_prepare(request))

    async def run(self, request: web.Request, reader: PageReader) -> web.WebSocketResponse:
        """Send changes until the browser leaves, its session ends or `end` is called."""
        await self._socket.prepare(request)
        with self._scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._listen)
                tasks.start_soon(self._push, reader)
        with anyio.move_on_after(CLOSE_S, shield=True):
            await self._socket.close(code=WSCloseCode.GOING_AWAY)
        left = request.transport
        if isinstance(left, asyncio.Transport) and left.get_write_buffer_size():
            left.abort()  # the browser stopped reading
        return self._socket

    def end(self) -> None:
        self._scope.cancel()

    async def _listen(self) -> None:
        """Return when the browser closes the socket, or sends anything."""
        await self._socket.receive()
        self._scope.cancel()

    async def _push(self, reader: PageReader) -> None:
        try:
            while self._may():
                news = await reader.news(BEAT_S)
                for part in (*news, message("beat", self._now())):
                    await self._socket.send_frame(
                        personal_bytes(part, self._token), web.WSMsgType.TEXT
                    )
        except ConnectionError:
            pass  # the browser is gone
        self._scope.cancel()
