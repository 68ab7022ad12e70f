"""The journal's interface, and a journal in memory."""

from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import Final, NamedTuple, Protocol

import anyio.lowlevel

from safetyd.core.engine.journal_lines import decode_batch, encode
from safetyd.core.events.event import Event

MAX_BATCH_BYTES: Final = 192 * 1024
LOST: Final = (
    "the journal was lost or replaced. Restore it, or move the audit files and checkpoints away to "
    "start with an empty journal"
)


class JournalSilent(Exception):
    """The journal does not answer now."""


class JournalTrimmed(Exception):
    """Batches that must be read are deleted. There must be a newer checkpoint."""


class Append(Protocol):
    """A batch that was sent."""

    async def settled(self) -> int:
        """Wait until the batch is safe on disk, and return its sequence number."""
        ...


class Journal(Protocol):
    """A sequence of batches of lines, numbered from 1."""

    @property
    def last(self) -> int:
        """Return the sequence number of the newest written batch."""
        ...

    @property
    def problem(self) -> str:
        """Return why sent batches are not written yet, or an empty string."""
        ...

    @property
    def lost(self) -> str:
        """Return how it is known that written batches are missing, or an empty string."""
        ...

    def send(self, batch: bytes) -> Append:
        """Send the next batch. It is written after all earlier ones."""
        ...

    def replay(self, after: int) -> AsyncGenerator[tuple[int, bytes]]:
        """Yield all batches after a sequence number, each with its own number, without gaps.

        Raise `JournalTrimmed` if the first of them is deleted.
        """
        ...

    async def first(self) -> int:
        """Return the sequence number of the oldest batch."""
        ...

    async def used(self) -> float:
        """Return the used share of the journal's space, from 0 to 1."""
        ...

    async def trim(self, below: int) -> None:
        """Delete batches before a sequence number, but never the newest batch."""
        ...


class MemoryJournal:
    """Stores batches in memory only."""

    def __init__(self) -> None:
        self.last = 0
        self.problem = ""
        self.lost = ""
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
        """Yield all events, decoded from the stored batches."""
        for batch in self._batches.values():
            yield from decode_batch(batch)

    async def replay(self, after: int) -> AsyncGenerator[tuple[int, bytes]]:
        begin = next(iter(self._batches), after + 1)
        if begin > after + 1:
            raise JournalTrimmed(f"the journal begins with batch {begin}, not {after + 1}")
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
