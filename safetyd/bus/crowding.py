"""Connections without a key give way: when there are too many, the longest silent are ended.

Nothing tells keyless agents apart, so one process could hold every connection that they may have.
Who has never published goes first, then who has been silent longest. An agent whose connection is
ended makes another with its next proposal.
"""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import anyio
import msgspec
import nats.errors

from safetyd.bus.accounts import CONNECTED, CONNECTIONS, ENDING, MAX_KEYLESS
from safetyd.bus.client import HardenedClient
from safetyd.bus.server import EmbeddedServer
from safetyd.clock import uptime

# What is left free of the server's limit, for those who come before anybody has looked.
FREE: Final = 32
LOOK_S: Final = 0.1
ANSWER_S: Final = 1.0
TELL_S: Final = 60.0

log = logging.getLogger("safetyd.bus")


class Connection(msgspec.Struct, frozen=True):
    cid: int
    in_msgs: int
    last_activity: datetime


class Connections(msgspec.Struct, frozen=True):
    server_id: str
    connections: tuple[Connection, ...] = ()


class Answer(msgspec.Struct, frozen=True):
    data: Connections


_decode = msgspec.json.Decoder(Answer).decode
_QUESTION: Final = msgspec.json.encode({"acc": "OPEN", "limit": 2 * MAX_KEYLESS})


def superfluous(connections: Sequence[Connection]) -> list[Connection]:
    """Return those that must give way."""
    kept = MAX_KEYLESS - FREE
    ranked = sorted(connections, key=lambda each: (each.in_msgs > 0, each.last_activity))
    return ranked[: max(0, len(ranked) - kept)]


class Crowding:
    """Looks at the connections of keyless agents whenever one comes."""

    def __init__(self, server: EmbeddedServer) -> None:
        self._server = server
        self._client = HardenedClient()
        self._came = anyio.Event()
        self._told_t = -TELL_S

    async def watch(self) -> None:
        """End what is too much, for ever."""
        await self._connect()
        try:
            while True:
                self._came = anyio.Event()
                await self._look()
                await self._came.wait()
                await anyio.sleep(LOOK_S)
        finally:
            with anyio.move_on_after(ANSWER_S, shield=True):
                await self._client.close()

    async def _connect(self) -> None:
        await self._client.connect(
            self._server.url,
            name="safetyd connections",
            nkeys_seed_str=self._server.monitor_seed,
            inbox_prefix="_INBOX.daemon",
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.25,  # type: ignore[arg-type] # annotated int, slept as is
            pending_size=-1,
            error_cb=_note,
            reconnected_cb=self._on_reconnect,
        )
        await self._client.handle(CONNECTED, lambda *_: self._came.set())

    async def _on_reconnect(self) -> None:
        self._came.set()  # the others may have been quicker

    async def _look(self) -> None:
        try:
            answer = await self._client.request(CONNECTIONS, _QUESTION, timeout=ANSWER_S)
            await self._relieve(_decode(answer.data).data)
        except (nats.errors.Error, msgspec.DecodeError, OSError) as exc:
            log.debug("connections: %s", exc)
            self._came.set()  # where nobody more gets in, nobody comes

    async def _relieve(self, found: Connections) -> None:
        ended = superfluous(found.connections)
        subject = ENDING.replace("*", found.server_id)
        for connection in ended:
            # The server ends none for somebody who does not want to hear of it.
            cid = msgspec.json.encode({"cid": connection.cid})
            await self._client.request(subject, cid, timeout=ANSWER_S)
        if ended and uptime() - self._told_t >= TELL_S:
            self._told_t = uptime()
            log.warning(
                "%d connections without a key are ended: there are %d, and these were silent "
                "longest; give agents that matter a key",
                len(ended),
                len(found.connections),
            )


async def _note(error: Exception) -> None:
    log.debug("connections: %s", error)
