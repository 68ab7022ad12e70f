"""Receives the batches that another daemon appends to the journal, in order and without gaps."""

import logging
from collections import deque
from contextlib import suppress
from functools import partial
from typing import Final

import anyio
import nats.errors
import nats.js.api as js_api
from nats.aio.subscription import Subscription
from nats.js import JetStreamContext

from safetyd.bus.nats_client import HardenedClient
from safetyd.bus.subjects import STREAM
from safetyd.clock import boottime

# How often the server says that there is nothing new, and how long its silence is not believed.
IDLE_S: Final = 0.5
SILENT_S: Final = 1.5
AGAIN_S: Final = 0.1
FORGET_S: Final = 10.0  # after which the server removes the consumer of a lost connection
MAX_WAITING_BYTES: Final = 32 * 1024**2

log = logging.getLogger("safetyd.journal")


class FellBehind(Exception):
    """The next batch is no longer in the journal. A checkpoint is needed."""


class JournalTail:
    """A consumer of the stream, which is made anew whenever it is silent or leaves a batch out."""

    def __init__(self, client: HardenedClient, boot_id: str) -> None:
        self._client = client
        self._js: JetStreamContext = client.jetstream(timeout=SILENT_S)
        self._inbox = f"_INBOX.daemon.{boot_id}.tail"
        self._made = 0  # how many consumers there were
        self._subscription: Subscription | None = None
        self._batches: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._arrived = anyio.Event()
        self._heard_t = 0.0

    async def next(self, after: int, patience_s: float) -> tuple[int, bytes] | None:
        """Return the batch that follows `after`, with its number, or None if there is none yet."""
        with anyio.move_on_after(max(patience_s, 0.0)):
            while True:
                if found := await self._found(after):
                    return found
                self._arrived = anyio.Event()
                with anyio.move_on_after(IDLE_S):
                    await self._arrived.wait()
        return None

    async def close(self) -> None:
        """Receive no more batches."""
        subscription, self._subscription = self._subscription, None
        self._batches.clear()
        self._bytes = 0
        if subscription is not None and self._client.is_connected:
            with suppress(nats.errors.Error, OSError):  # the connection is lost just now
                await self._client.leave(subscription)

    async def _found(self, after: int) -> tuple[int, bytes] | None:
        if self._subscription is None or boottime() - self._heard_t > SILENT_S:
            await self._listen(after)
        while self._batches:
            sequence, batch = self._batches.popleft()
            self._bytes -= len(batch)
            if sequence == after + 1:
                return sequence, batch
            if sequence > after:
                await self._missed(after)
        return None

    async def _missed(self, after: int) -> None:
        """Start again after a gap. Raise `FellBehind` if the missing batches are deleted."""
        await self.close()
        try:
            info = await self._js.stream_info(STREAM)
        except (nats.errors.Error, TimeoutError, OSError) as exc:
            log.debug("cannot look for missing batches now: %s", exc)
            return
        if info.state.first_seq > after + 1:
            raise FellBehind(f"the journal begins with batch {info.state.first_seq}, after {after}")

    async def _listen(self, after: int) -> None:
        await self.close()
        self._made += 1
        subject = f"{self._inbox}.{self._made}"
        config = js_api.ConsumerConfig(
            deliver_subject=subject,
            deliver_policy=js_api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=after + 1,
            ack_policy=js_api.AckPolicy.NONE,
            idle_heartbeat=IDLE_S,
            inactive_threshold=FORGET_S,
            mem_storage=True,
            num_replicas=1,
        )
        try:
            self._subscription = await self._client.handle(
                subject, partial(self._receive, self._made)
            )
            await self._js.add_consumer(STREAM, config)
        except (nats.errors.Error, TimeoutError, OSError) as exc:
            log.debug("cannot follow the journal now: %s", exc)
            await self.close()
            await anyio.sleep(AGAIN_S)
        self._heard_t = boottime()

    def _receive(self, number: int, _subject: bytes, reply: bytes, payload: bytes) -> None:
        if number != self._made:
            return
        self._heard_t = boottime()
        if not reply.startswith(b"$JS.ACK."):
            return  # there is nothing new
        if self._bytes > MAX_WAITING_BYTES:
            return  # the gap is noticed once the others are read
        self._batches.append((_sequence(reply), payload))
        self._bytes += len(payload)
        self._arrived.set()


def _sequence(reply: bytes) -> int:
    """Return the stream sequence in the reply subject of a delivered message.

    It is `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.…`, and newer servers put the domain
    and the account before the stream.
    """
    parts = reply.split(b".")
    return int(parts[5] if len(parts) == 9 else parts[7])  # noqa: PLR2004
