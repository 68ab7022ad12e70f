"""Everything that waits for the engine, in order."""

from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

import anyio

from safetyd.clock import uptime
from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Event, Moment

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


class Question(Letter, Protocol):
    """A letter that may be opened several times, a slice at a time, until it is `done`."""

    done: bool


class Mailbox:
    """Bounded by count, bytes and the age of the oldest letter.

    Questions of people wait apart, bounded by whoever puts them: no proposal is refused for them.
    """

    def __init__(self) -> None:
        self._letters: deque[Letter] = deque()
        self._questions: deque[Question] = deque()
        self._bytes = 0
        self._arrived = anyio.Event()
        self._asked = anyio.Event()

    def __len__(self) -> int:
        return len(self._letters) + len(self._questions)

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

    def put_question(self, question: Question) -> None:
        """Put something that is answered now and then, between letters."""
        self._questions.append(question)
        self._asked.set()

    def put_back(self, question: Question) -> None:
        """Let a question that is not done go on before others begin."""
        self._questions.appendleft(question)

    def take_question(self) -> Question | None:
        return self._questions.popleft() if self._questions else None

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

    async def wait_for_question(self) -> None:
        """Return once a question waits."""
        if not self._questions:
            self._asked = anyio.Event()
            await self._asked.wait()
