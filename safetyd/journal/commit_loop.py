"""The commit loop: decide, append to the journal, copy to the audit file, then reply.

While one batch is being written, the next is already sent and the engine fills a third, so that
neither the disk nor the CPU waits. A decision is never undone: either its batch is written, or
another daemon owns the journal and this one stops.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import anyio
import anyio.lowlevel
from anyio.streams.memory import MemoryObjectReceiveStream

from safetyd.clock import Clock, uptime
from safetyd.core.approvals.final_decisions import Conclusion
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.engine_state import Checkpoint, EngineState
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.daemon_events import ClockStepped
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.request_events import Answered
from safetyd.core.messages.decision import Decision
from safetyd.journal.audit import Audit
from safetyd.journal.journals import MAX_BATCH_BYTES, Append, Journal
from safetyd.journal.mailbox import STALLED_S, Effects, Envelope, Mailbox, Question
from safetyd.journal.question_loop import answer_questions

ALLOW_LEAVES_WITHIN_S: Final = 2.0
AUDIT_AGAIN_S: Final = 0.25
SLICE_S: Final = 0.05  # after deciding for this long, the rest of the daemon gets its turn
# One input produces at most the line of a 64 KiB proposal and a few short lines.
INPUT_BYTES: Final = 80 * 1024

log = logging.getLogger("safetyd.journal")

Observer = Callable[[Sequence[Event]], None]
# Returns why an approved action is no longer the one that the operator saw, or an empty string.
Moved = Callable[[EngineState, Decided], str]
# Takes the final decisions of requests, and returns a function that sends them. That function is
# called once the decisions are durable.
Conclude = Callable[[EngineState, Sequence[Conclusion]], Callable[[], None]]


def _ignore(_seconds: float, _events: int) -> None: ...


def _nothing() -> None: ...


def _no_conclusions(_state: EngineState, _given: Sequence[Conclusion]) -> Callable[[], None]:
    return _nothing


def _unmoved(_state: EngineState, _asked: Decided) -> str:
    return ""


def put(
    engine: Engine, envelope: Envelope, moment: Moment, moved: Moved = _unmoved
) -> Sequence[Event]:
    """Apply an envelope to the engine, and return the events to journal."""
    decision: Decision | None = None
    lasting: list[Event] = []
    caused: Sequence[Event]
    for event in envelope.open(engine, moment):
        if type(event) is Proposed:
            decision, caused = engine.decide(event)
        else:
            if type(event) is Answered and event.answer == "approved":
                request = engine.approvals.find(event.request_id)
                event.moved = "" if request is None else moved(engine, request.asked)
            caused = engine.handle(event)
        lasting += caused
    envelope.note(engine, Effects(lasting, decision))
    return lasting


class Batch:
    """Lines that are written together, and the replies to send once they are durable."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        self.conclusions: list[Callable[[], None]] = []  # each sends final decisions of requests
        self.events: list[Event] = []
        self.lines: list[bytes] = []
        self.bytes = 0

    @property
    def full(self) -> bool:
        return self.bytes > MAX_BATCH_BYTES - INPUT_BYTES

    def add(self, events: Sequence[Event]) -> None:
        for event in events:
            line = encode(event)
            self.lines.append(line)
            self.bytes += len(line) + 1
        self.events += events


class Frozen(NamedTuple):
    """The engine's state after a batch. `take` is called with it and the stream sequence."""

    t: float
    encode_engine: Callable[[], Checkpoint]
    take: Callable[[int, "Frozen"], None]


class SentBatch(NamedTuple):
    """A batch on its way to the journal. If it has no lines, `append` is None."""

    batch: Batch
    append: Append | None
    frozen: Frozen | None


class CommitLoop:
    """Applies envelopes to the engine and writes the results. Nothing else uses the engine."""

    def __init__(  # noqa: PLR0913 - what it takes from, writes to and tells
        self,
        mailbox: Mailbox,
        engine: Engine,
        journal: Journal,
        audit: Audit,
        clock: Clock,
        *,
        conclude: Conclude = _no_conclusions,
        moved: Moved = _unmoved,
        observers: Sequence[Observer] = (),
        appended: Callable[[float, int], None] = _ignore,
        flush: Callable[[], None] = _nothing,
    ) -> None:
        self.mailbox = mailbox
        self._engine = engine
        self._journal = journal
        self._audit = audit
        self._clock = clock
        self._open = Batch()
        self._filled = anyio.Event()
        self._room = anyio.Event()
        self._freeze: Callable[[int, Frozen], None] | None = None
        self._conclude = conclude
        self._moved = moved
        self._observers = observers
        self._appended = appended  # called with the duration and number of events of an append
        self._flush = flush  # sends the replies of a batch
        self.audit_problem = ""
        self._under_way: deque[float] = deque()  # when each batch was sent
        self._told_seq = journal.last  # the stream sequence of the newest finished batch

    @property
    def seq(self) -> int:
        """Return the number of the last decided event, which may not be durable yet."""
        return self._engine.seq

    @property
    def unwritten_s(self) -> float:
        """Return how long the oldest unwritten batch has been waiting, or 0.0 if there is none."""
        return uptime() - self._under_way[0] if self._under_way else 0.0

    @property
    def server_owes_s(self) -> float:
        """Return `unwritten_s` if the journal's server is the cause, else 0.0."""
        return 0.0 if self.audit_problem or self.lost else self.unwritten_s

    @property
    def stalled(self) -> str:
        """Return why new proposals would wait too long, or an empty string."""
        if self.unwritten_s <= STALLED_S:
            return ""
        return self.problem or f"the journal has not answered for {self.unwritten_s:.1f} s"

    @property
    def lost(self) -> str:
        """Return how it is known that batches of the journal are missing, or an empty string."""
        return self._journal.lost

    @property
    def problem(self) -> str:
        """Return why nothing can be written now, or an empty string."""
        return self._journal.problem or self.audit_problem

    def freeze_next(self, take: Callable[[int, Frozen], None]) -> None:
        """Call `take` with the engine's state after the next batch, once that batch is durable."""
        self._freeze = take

    async def decide(self) -> None:
        """Apply envelopes to the engine forever, whenever the open batch has room."""
        while True:
            await self.mailbox.wait()
            if self._open.full:
                self._room = anyio.Event()
                await self._room.wait()
            self._open_envelopes()
            self._filled.set()
            if len(self.mailbox):
                await anyio.lowlevel.checkpoint()

    async def answer(self) -> None:
        """Answer questions forever."""
        await answer_questions(self.mailbox, self._engine, self._clock, self._answered)

    async def commit(self) -> None:
        """Send batches to the journal forever, each while the previous one is being written."""
        send, receive = anyio.create_memory_object_stream[SentBatch](0)
        async with send, receive, anyio.create_task_group() as tasks:
            tasks.start_soon(self._deliver, receive)
            while True:
                await self._filled.wait()
                self._filled = anyio.Event()
                batch, self._open = self._open, Batch()
                self._room.set()
                await send.send(self._sent(batch))

    def _open_envelopes(self) -> None:
        batch, engine, (moment, stepped_s) = self._open, self._engine, self._clock.read()
        if stepped_s:
            # Record the clock step first: later events already have the new time, so the step
            # must not shift them.
            stepped = ClockStepped(at=moment.at, t=moment.t, seconds=stepped_s)
            batch.add(engine.handle(stepped))
        until = uptime() + SLICE_S
        while not batch.full and (envelope := self.mailbox.take()) is not None:
            batch.add(put(engine, envelope, moment, self._moved))
            batch.envelopes.append(envelope)
            if uptime() > until:
                break
        if concluded := engine.take_conclusions():
            batch.conclusions.append(self._conclude(engine, concluded))

    def _answered(self, question: Question) -> None:
        """Send the answer once everything before it is durable."""
        self._open.envelopes.append(question)
        self._filled.set()

    def _sent(self, batch: Batch) -> SentBatch:
        frozen = None
        if self._freeze is not None:
            frozen = Frozen(self._clock.now().t, self._engine.save(), self._freeze)
            self._freeze = None
        append = self._journal.send(b"\n".join(batch.lines)) if batch.lines else None
        self._under_way.append(uptime())
        return SentBatch(batch, append, frozen)

    async def _deliver(self, under_way: MemoryObjectReceiveStream[SentBatch]) -> None:
        async for sent in under_way:
            await self._tell(sent)

    async def _tell(self, sent: SentBatch) -> None:
        """Wait until a batch is written, copy it to the audit file, and send its replies."""
        batch, began = sent.batch, self._under_way[0]
        if sent.append is not None:
            self._told_seq = await sent.append.settled()
            self._appended(uptime() - began, len(batch.lines))
            await self._mirror(batch)
        self._under_way.popleft()
        late = uptime() - began > ALLOW_LEAVES_WITHIN_S
        for envelope in batch.envelopes:
            envelope.deliver(late=late)
        for conclude in batch.conclusions:
            conclude()
        self._flush()
        if batch.events:  # a batch may only carry answers
            for observe in self._observers:
                observe(batch.events)
        if sent.frozen is not None:
            sent.frozen.take(self._told_seq, sent.frozen)

    async def _mirror(self, batch: Batch) -> None:
        while True:
            try:
                self._audit.append(batch.lines, batch.events[-1].seq)
            except OSError as exc:
                self.audit_problem = f"cannot write the audit file: {exc}"
                log.error("%s", self.audit_problem)  # noqa: TRY400 - the cause is in the text
                await anyio.sleep(AUDIT_AGAIN_S)
            else:
                self.audit_problem = ""
                return
