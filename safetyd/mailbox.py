"""Everything that waits for the engine, in order."""

from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

import anyio

from safetyd.clock import uptime
from safetyd.core.engine import Engine
from safetyd.core.events import Event, Moment

MAX_LETTERS: Final = 4096
MAX_BYTES: Final = 16 * 1024 * 1024
STALLED_S: Final = 1.0


class Letter(Protocol):
    """Something to put to the engine, and what to do once its consequences are durable."""

    size: int
    received: float

    def open(self, engine: Engine, moment: Moment) -> Sequence[Event]:
        """Ask the engine; return what must be journalled before `deliver`."""
        ...

    def deliver(self, *, late: bool) -> None:
        """Tell whoever waits. `late`: too much time has passed for an allow to leave."""
        ...


class Mailbox:
    """Bounded by count, bytes and the age of the oldest letter."""

    def __init__(self) -> None:
        self._letters: deque[Letter] = deque()
        self._bytes = 0
        self._arrived = anyio.Event()

    def __len__(self) -> int:
        return len(self._letters)

    @property
    def full(self) -> bool:
        """Say whether new proposals must be refused because old ones are not getting done."""
        letters = self._letters
        if not letters:
            return False
        if len(letters) >= MAX_LETTERS or self._bytes >= MAX_BYTES:
            return True
        return uptime() - letters[0].received > STALLED_S

    def put(self, letter: Letter) -> None:
        self._letters.append(letter)
        self._bytes += letter.size
        self._arrived.set()

    def put_first(self, letter: Letter) -> None:
        """Put a stop before everything that already waits."""
        self._letters.appendleft(letter)
        self._bytes += letter.size
        self._arrived.set()

    def take(self) -> Letter | None:
        if not self._letters:
            return None
        letter = self._letters.popleft()
        self._bytes -= letter.size
        return letter

    async def wait(self) -> None:
        """Return once something waits."""
        if not self._letters:
            self._arrived = anyio.Event()
            await self._arrived.wait()
