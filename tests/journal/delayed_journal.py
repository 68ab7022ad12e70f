"""A journal whose batches are written and acknowledged when the test says so."""

from collections import deque
from collections.abc import AsyncGenerator

import anyio

from safetyd.core.engine.journal_lines import decode_batch
from safetyd.core.events.event import Event
from safetyd.journal.journals import Journal


class DelayedAppend:
    def __init__(self, batch: bytes) -> None:
        self.batch = batch
        self._sequence = 0
        self._arrived = anyio.Event()

    async def settled(self) -> int:
        await self._arrived.wait()
        return self._sequence

    def arrive(self, sequence: int) -> None:
        self._sequence = sequence
        self._arrived.set()


class DelayedJournal:
    """Holds batches back on their way into another journal, which a restart may replace."""

    problem = ""
    lost = ""

    def __init__(self, inner: Journal) -> None:
        self.inner = inner
        self.durable: list[Event] = []
        self._sent: deque[DelayedAppend] = deque()

    @property
    def last(self) -> int:
        return self.inner.last

    def send(self, batch: bytes) -> DelayedAppend:
        append = DelayedAppend(batch)
        self._sent.append(append)
        return append

    def replay(self, after: int) -> AsyncGenerator[tuple[int, bytes]]:
        return self.inner.replay(after)

    async def first(self) -> int:
        return await self.inner.first()

    async def used(self) -> float:
        return await self.inner.used()

    async def trim(self, below: int) -> None:
        await self.inner.trim(below)

    @property
    def unacknowledged(self) -> int:
        return len(self._sent)

    async def acknowledge(self, *, arrives: bool = True) -> None:
        """Write the oldest append; if the acknowledgement is lost, its sender goes on waiting."""
        append = self._sent.popleft()
        sequence = await self.inner.send(append.batch).settled()
        self.durable += decode_batch(append.batch)
        if arrives:
            append.arrive(sequence)

    def lose(self) -> None:
        """Forget everything that was sent and not written, as a crash does."""
        self._sent.clear()
