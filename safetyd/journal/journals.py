"""The log that everything is rebuilt from, and the simplest one: a journal in memory."""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final, NamedTuple, Protocol

import anyio.lowlevel

from safetyd.core.engine.journal_lines import decode_batch, encode
from safetyd.core.events.event import Event

MAX_BATCH_BYTES: Final = 192 * 1024


class JournalSilent(Exception):
    """The journal gives no answer now; it is asked again later."""


class Append(Protocol):
    """A batch that was sent."""

    async def settled(self) -> int:
        """Return its sequence number once the batch would survive a power cut."""
        ...


class Journal(Protocol):
    """Batches of lines in order, each with a sequence number of its own; they count from 1."""

    @property
    def last(self) -> int:
        """Return the sequence number of the newest batch that is known to be written."""
        ...

    @property
    def problem(self) -> str:
        """Return why what is under way is not written yet, or nothing."""
        ...

    def send(self, batch: bytes) -> Append:
        """Send a batch that follows all that were sent before."""
        ...

    def replay(self, after: int) -> AsyncIterator[tuple[int, bytes]]:
        """Yield every batch after a sequence number, with its own, up to the end."""
        ...

    async def first(self) -> int:
        """Return the oldest sequence number that is still there."""
        ...

    async def used(self) -> float:
        """Return which share of its room is used; raise `JournalSilent` if nobody says."""
        ...

    async def trim(self, below: int) -> None:
        """Forget what came before a sequence number; the newest batch always stays."""
        ...


class MemoryJournal:
    """Writes each batch when it is sent, and loses everything with the process."""

    def __init__(self) -> None:
        self.last = 0
        self.problem = ""
        self._batches: dict[int, bytes] = {}

    def send(self, batch: bytes) -> "MemoryAppend":
        self.last += 1
        self._batches[self.last] = batch
        return MemoryAppend(self.last)

    def write(self, events: Iterable[Event]) -> None:
        """Append events as one batch, if there are any."""
        if lines := [encode(event) for event in events]:
            self.send(b"\n".join(lines))

    def events(self) -> Iterator[Event]:
        """Yield everything that is written, as a start reads it."""
        for batch in self._batches.values():
            yield from decode_batch(batch)

    async def replay(self, after: int) -> AsyncIterator[tuple[int, bytes]]:
        for sequence, batch in tuple(self._batches.items()):
            if sequence > after:
                yield sequence, batch

    async def first(self) -> int:
        await anyio.lowlevel.checkpoint()
        return next(iter(self._batches), 0)

    async def used(self) -> float:
        await anyio.lowlevel.checkpoint()
        return 0.0

    async def trim(self, below: int) -> None:
        await anyio.lowlevel.checkpoint()
        if below <= self.last:
            for sequence in tuple(self._batches):
                if sequence < below:
                    del self._batches[sequence]


class MemoryAppend(NamedTuple):
    """A batch that is written."""

    sequence: int

    async def settled(self) -> int:
        await anyio.lowlevel.checkpoint()
        return self.sequence
