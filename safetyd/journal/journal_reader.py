"""Reads the batches of the journal in order and without gaps.

A consumer of the stream delivers the batches, and the server delivers none of them twice. If a
connection is lost, so are the batches that were on their way. So each batch must follow the last
good one. If another one arrives instead, or none for a while, a new consumer begins there.

The server sends only as much as it has permission for. Its requests for more arrive between the
batches, and are answered once everything before them is read.
"""

import logging
from collections import deque
from contextlib import suppress
from functools import partial
from typing import Final

import anyio
import anyio.lowlevel
import nats.errors
import nats.js.api as js_api
from nats.aio.subscription import Subscription
from nats.js import JetStreamContext

from safetyd.bus.nats_client import HardenedClient, pub
from safetyd.bus.subjects import STREAM
from safetyd.journal.journals import JournalTrimmed

SILENT_S: Final = 1.5  # a writer appends more often
AGAIN_S: Final = 0.1
FORGET_S: Final = 10.0  # after which the server removes the consumer of a lost connection

_BATCH: Final = b"$JS.ACK."
_REQUEST: Final = b"$JS.FC."  # the server asks to send more

log = logging.getLogger("safetyd.journal")


class JournalReader:
    """Reads from any batch on."""

    def __init__(self, client: HardenedClient) -> None:
        self._client = client
        self._js: JetStreamContext = client.jetstream(timeout=SILENT_S)
        self._inbox = ""
        self._subscription: Subscription | None = None
        self._received: deque[tuple[bytes, bytes]] = deque()  # reply subject and payload
        self._news = anyio.Event()

    async def next(self, after: int, patience_s: float) -> tuple[int, bytes] | None:
        """Return the batch that follows `after`, with its number, or None if there is none yet.

        Raise `JournalTrimmed` if it is deleted.
        """
        with anyio.move_on_after(max(patience_s, 0.0)):
            while True:
                if found := await self._found(after):
                    await anyio.lowlevel.checkpoint()
                    return found
                if self._subscription is None:
                    await self._listen(after)
                else:
                    await self._wait()
        return None

    async def close(self) -> None:
        """Receive no more batches."""
        subscription, self._subscription = self._subscription, None
        self._received.clear()
        if subscription is not None:
            with suppress(nats.errors.Error, OSError):  # the connection is lost just now
                await self._client.leave(subscription)

    async def _found(self, after: int) -> tuple[int, bytes] | None:
        """Take the next batch from those that were received. Start again if others are there."""
        while self._received:
            reply, batch = self._received.popleft()
            if reply.startswith(_REQUEST):
                self._client.send(pub(reply, b""))
                continue
            sequence = _sequence(reply)
            if sequence == after + 1:
                return sequence, batch
            log.warning("batch %d of the journal followed %d; reading again", sequence, after)
            await self.close()
        return None

    async def _wait(self) -> None:
        """Wait until something is received. Start again if there is nothing for a while."""
        self._news = anyio.Event()
        with anyio.move_on_after(SILENT_S) as silence:
            await self._news.wait()
        if silence.cancelled_caught:
            await self.close()

    async def _listen(self, after: int) -> None:
        """Begin to receive the batches after this one."""
        try:
            found = (await self._js.stream_info(STREAM)).state
            if found.first_seq > after + 1:
                raise JournalTrimmed(
                    f"the journal begins with batch {found.first_seq}, but batch {after + 1} must "
                    "be read: there must be a newer checkpoint"
                )
            inbox = self._inbox = self._client.new_inbox()
            self._subscription = await self._client.handle(inbox, partial(self._receive, inbox))
            config = js_api.ConsumerConfig(
                deliver_subject=inbox,
                deliver_policy=js_api.DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=after + 1,
                ack_policy=js_api.AckPolicy.NONE,
                flow_control=True,
                idle_heartbeat=SILENT_S,  # the server requires it
                inactive_threshold=FORGET_S,
                mem_storage=True,
                num_replicas=1,
            )
            await self._js.add_consumer(STREAM, config)
        except (nats.errors.Error, OSError) as exc:
            log.debug("cannot read the journal now: %s", exc)
            await self.close()
            await anyio.sleep(AGAIN_S)

    def _receive(self, inbox: str, _subject: bytes, reply: bytes, payload: bytes) -> None:
        if inbox == self._inbox and reply.startswith((_BATCH, _REQUEST)):
            self._received.append((reply, payload))
            self._news.set()


def _sequence(reply: bytes) -> int:
    """Return the stream sequence in the reply subject of a delivered message.

    It is `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.…`, and newer servers put the domain
    and the account before the stream.
    """
    parts = reply.split(b".")
    return int(parts[5] if len(parts) == 9 else parts[7])  # noqa: PLR2004
