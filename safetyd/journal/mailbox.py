"""The mailbox: a queue of inputs and questions for the engine, each in an envelope.

An envelope reads the engine's state and returns events. Only the commit loop applies events. If a
question or command raises, it is logged, its sender gets an error, and the daemon continues.
"""

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

import anyio
import msgspec

from safetyd.clock import uptime, worked
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.core.messages.decision import Decision

FAILED: Final = "internal error; see the daemon's log"
MAX_ENVELOPES: Final = 4096
MAX_BYTES: Final = 16 * 1024 * 1024
STALLED_S: Final = 1.0
Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)  # the answer to a command
Packed = TypeVar("Packed")
Make = Callable[[EngineState, Moment], Event | None]

# Yields between slices, receives the current time, and returns the answer.
Slices = Generator[None, Moment, msgspec.Struct]

Ask = Callable[[EngineState, Moment], msgspec.Struct | Slices]

log = logging.getLogger("safetyd.mailbox")


class Unanswered(Exception):
    """There is no answer. The text says why."""


class Effects(NamedTuple):
    """The result of an envelope: the events to journal, and the decision about a proposal."""

    events: Sequence[Event]
    decision: Decision | None


class Envelope(ABC):
    """An input or question, and what to do once its effects are durable."""

    size: int = 256
    received: float

    @abstractmethod
    def open(self, state: EngineState, moment: Moment) -> Sequence[Event]:
        """Return the events to apply. If one is a `Proposed`, the engine decides it."""

    def note(self, state: EngineState, effects: Effects) -> None:  # noqa: B027 - few need to
        """Receive the result, before it is durable."""

    @abstractmethod
    def deliver(self, *, late: bool) -> None:
        """Send the reply. If `late`, too much time has passed to allow an action."""


class Question(Envelope):
    """An envelope that is opened several times, one slice at a time, until it is `done`."""

    done: bool


class Mailbox:
    """A queue limited by count, bytes and the age of the oldest envelope.

    Questions of operators wait in a separate queue (see `bus/question_limits.py`), so that they
    never cause a proposal to be refused.
    """

    def __init__(self) -> None:
        self._envelopes: deque[Envelope] = deque()
        self._questions: deque[Question] = deque()
        self._bytes = 0
        self._arrived = anyio.Event()
        self._asked = anyio.Event()

    def __len__(self) -> int:
        return len(self._envelopes) + len(self._questions)

    @property
    def full(self) -> bool:
        """Return True if new proposals must be refused because too many are waiting."""
        envelopes = self._envelopes
        if not envelopes:
            return False
        if len(envelopes) >= MAX_ENVELOPES or self._bytes >= MAX_BYTES:
            return True
        return uptime() - envelopes[0].received > STALLED_S

    def put(self, envelope: Envelope) -> None:
        self._envelopes.append(envelope)
        self._bytes += envelope.size
        self._arrived.set()

    def record(self, make: Callable[[Moment], Event]) -> None:
        """Record an event without waiting until it is durable."""
        self.put(EventEnvelope(lambda _state, moment: make(moment)))

    def put_first(self, envelope: Envelope) -> None:
        """Put an envelope before all others. Stops use this."""
        self._envelopes.appendleft(envelope)
        self._bytes += envelope.size
        self._arrived.set()

    def put_question(self, question: Question) -> None:
        """Queue a question. Its slices are computed between batches."""
        self._questions.append(question)
        self._asked.set()

    def put_back(self, question: Question) -> None:
        """Put an unfinished question back, before the other questions."""
        self._questions.appendleft(question)

    def take_question(self) -> Question | None:
        return self._questions.popleft() if self._questions else None

    def take(self) -> Envelope | None:
        if not self._envelopes:
            return None
        envelope = self._envelopes.popleft()
        self._bytes -= envelope.size
        return envelope

    def clear(self) -> None:
        """Drop everything."""
        self._envelopes.clear()
        self._questions.clear()
        self._bytes = 0

    async def ask(self, ask: Callable[[EngineState, Moment], Answer]) -> Answer:
        """Return the answer to a question, once everything it depends on is durable."""
        return await self.carry_out(lambda state, moment: Carried((), ask(state, moment)))

    async def carry_out(self, plan: "Plan[Answer]") -> Answer:
        """Return the answer to a command, once its effects are durable."""
        answers: list[Answer] = []
        done = anyio.Event()

        def told(answer: Answer) -> None:
            answers.append(answer)
            done.set()

        self.put(CommandEnvelope(plan, told, done.set))
        await done.wait()
        if not answers:
            raise Unanswered(FAILED)
        return answers[0]

    async def wait(self) -> None:
        """Wait until there is an envelope."""
        if not self._envelopes:
            self._arrived = anyio.Event()
            await self._arrived.wait()

    async def wait_for_question(self) -> None:
        """Wait until there is a question."""
        if not self._questions:
            self._asked = anyio.Event()
            await self._asked.wait()


class Carried(NamedTuple, Generic[Answer_co]):
    """The events of a command, and its answer."""

    events: Sequence[Event]
    answer: Answer_co


Plan = Callable[[EngineState, Moment], Carried[Answer_co]]


class EventEnvelope(Envelope):
    """An event from outside the engine. `told` is called once it is durable."""

    def __init__(self, make: Make, told: Callable[[], None] = lambda: None) -> None:
        self.received = uptime()
        self._make = make
        self._told = told

    def open(self, state: EngineState, moment: Moment) -> Sequence[Event]:
        event = self._make(state, moment)
        return () if event is None else (event,)

    def deliver(self, *, late: bool) -> None:  # noqa: ARG002 - news does not go stale
        self._told()


class InquiryEnvelope(Question, Generic[Packed]):
    """A question of an operator. `spent` is called with the duration of each slice.

    `pack` converts the answer as soon as it is computed. The answer is sent once the journal is
    written.
    """

    def __init__(
        self,
        ask: Ask,
        pack: Callable[[msgspec.Struct], Packed],
        told: Callable[[Packed], None],
        failed: Callable[[], None],
        spent: Callable[[float], None],
    ) -> None:
        self.received = uptime()
        self.done = False
        self._ask = ask
        self._pack = pack
        self._told = told
        self._deliver: Callable[[], None] = failed
        self._spent = spent
        self._slices: Slices | None = None

    def open(self, state: EngineState, moment: Moment) -> Sequence[Event]:
        begun = worked()
        try:
            found = self._next(state, moment)
            if found is not None:
                self._deliver = partial(self._told, self._pack(found))
                self.done = True
        except Exception:
            log.exception("a question failed")
            self.done = True
        self._spent(worked() - begun)
        return ()

    def deliver(self, *, late: bool) -> None:  # noqa: ARG002 - the asker knows its own patience
        self._deliver()

    def _next(self, state: EngineState, moment: Moment) -> msgspec.Struct | None:
        """Compute a slice. Return the answer, or None if it is not complete."""
        if self._slices is not None:
            return _advanced(self._slices, moment)
        found = self._ask(state, moment)
        if isinstance(found, msgspec.Struct):
            return found
        self._slices = found
        return _advanced(found, None)


def _advanced(slices: Slices, moment: Moment | None) -> msgspec.Struct | None:
    try:
        slices.send(moment)  # type: ignore[arg-type] # None begins a generator
    except StopIteration as end:
        found: msgspec.Struct = end.value
        return found
    return None


class CommandEnvelope(Envelope, Generic[Answer_co]):
    """A command that depends on the engine's state. It is answered once its events are durable."""

    def __init__(
        self,
        plan: Plan[Answer_co],
        told: Callable[[Answer_co], None],
        failed: Callable[[], None],
    ) -> None:
        self.received = uptime()
        self._plan = plan
        self._told = told
        self._deliver: Callable[[], None] = failed

    def open(self, state: EngineState, moment: Moment) -> Sequence[Event]:
        try:
            events, answer = self._plan(state, moment)
        except Exception:
            log.exception("a command or question failed")
            return ()
        self._deliver = partial(self._told, answer)
        return events

    def deliver(self, *, late: bool) -> None:  # noqa: ARG002 - what was done stays done
        self._deliver()


class QuestionEnvelope(CommandEnvelope[Answer]):
    """A question about the engine's state. It is answered once that state is durable."""

    def __init__(
        self,
        ask: Callable[[EngineState, Moment], Answer],
        told: Callable[[Answer], None],
        failed: Callable[[], None],
    ) -> None:
        super().__init__(lambda state, moment: Carried((), ask(state, moment)), told, failed)
