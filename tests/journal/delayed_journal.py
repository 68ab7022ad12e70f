"""A journal in memory whose acknowledgements come when the test says so."""

from collections import deque

from safetyd.core.engine.journal_lines import decode_batch
from safetyd.core.events.event import Event
from safetyd.journal.stream import Append


class DelayedJournal:
    """Appends are sent at once; each is durable from its acknowledgement on."""

    def __init__(self) -> None:
        self.last = 0
        self.problem = ""
        self.durable: list[Event] = []
        self._sent: deque[Append] = deque()

    def send(self, batch: bytes) -> Append:
        append = Append(self.last + len(self._sent) + 1, "", batch)
        self._sent.append(append)
        return append

    async def settle(self, append: Append) -> int:
        return await append.written

    @property
    def unacknowledged(self) -> int:
        return len(self._sent)

    def acknowledge(self, *, arrives: bool = True) -> None:
        """Write the oldest append; one that does not arrive leaves its sender waiting."""
        append = self._sent.popleft()
        self.last += 1
        self.durable += decode_batch(append.batch)
        if arrives:
            append.written.set_result(self.last)

    def lose(self) -> None:
        """Forget everything that was sent and not written, as a crash does."""
        self._sent.clear()
