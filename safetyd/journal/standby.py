"""A standby: it follows the journal with its own engine, and takes over from the writer.

The journal decides who writes. A writer appends at least every half second. If a standby sees no
new batch for two seconds, or the writer has released the journal, it appends `WriterChanged` right
after the last batch that it knows. Of several daemons only one succeeds.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import anyio

from safetyd.clock import Clock, boottime
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.cluster_events import WriterChanged
from safetyd.core.events.event import Event
from safetyd.journal.audit import Audit
from safetyd.journal.recovery import Restored, UnknownEvent, append_missing, check_audit
from safetyd.journal.stream import Displaced, JetStreamJournal

SILENCE_S: Final = 2.0  # how long there is no new batch before a standby takes over
AUDIT_AGAIN_S: Final = 0.25

log = logging.getLogger("safetyd.standby")


class Claimant(NamedTuple):
    """The name and version under which a daemon writes the journal."""

    daemon: str
    version: str


class Followed(NamedTuple):
    """What a standby follows: its engine, after which batch, the journal, and the audit file."""

    restored: Restored
    after: int
    journal: JetStreamJournal
    audit: Audit


class Standby:
    """Follows the journal until this daemon has become its writer.

    `patient`: this daemon has just released the journal, and lets another one take over.
    """

    def __init__(
        self,
        followed: Followed,
        clock: Clock,
        claimant: Claimant,
        *,
        patient: bool,
    ) -> None:
        self._restored, self._after, self._journal, self._audit = followed
        self._reader = followed.journal.reader()
        self._clock = clock
        self._claimant = claimant
        self._patient = patient
        self._heard_t = boottime()
        self._observers: list[Callable[[Sequence[Event]], None]] = []
        self._unknown = ""  # the event of another version
        self.audit_problem = ""
        self.before = ""  # the writer that this daemon took over from
        self.planned = False  # that writer had released the journal

    @property
    def engine(self) -> EngineState:
        return self._restored.engine

    @property
    def lost(self) -> str:
        """Return how it is known that batches of the journal are missing, or an empty string."""
        return self._journal.lost

    @property
    def problem(self) -> str:
        """Return why this daemon cannot take over, or an empty string."""
        return self._unknown or self.lost

    @property
    def writer(self) -> str:
        """Return which daemon decides instead of this one."""
        return f"this daemon is a standby; {self.engine.writers.daemon or 'another one'} decides"

    @property
    def silent_s(self) -> float:
        """Return how long ago the newest batch arrived."""
        return boottime() - self._heard_t

    def observe_with(self, observe: Callable[[Sequence[Event]], None]) -> None:
        """Call `observe` with the events of each batch that arrives from now on."""
        self._observers.append(observe)

    async def catch_up(self) -> None:
        """Replay the batches that the journal has now."""
        with self._known_events():
            async for sequence, batch in self._journal.replay(self._after):
                await self._apply(sequence, batch)
            check_audit(self._restored, self._audit)
        self._clock.resume_after(self._restored.t)

    async def follow(self) -> None:
        """Follow the journal. Return once this daemon is its writer."""
        while not await self.claim():
            if self._unknown:
                await anyio.sleep(SILENCE_S)  # only another version of safetyd helps
            elif found := await self._reader.next(self._after, SILENCE_S - self.silent_s):
                with self._known_events():
                    await self._apply(*found)
        await self._reader.close()

    async def claim(self) -> bool:
        """Become the writer, if the time for it has come. Return whether this daemon is it now."""
        return self._due() and await self._take_over()

    def _due(self) -> bool:
        if self._unknown:
            return False
        writers = self.engine.writers
        free = self._after == 0 or (writers.term > 0 and writers.released)
        waits = self._patient and writers.daemon == self._claimant.daemon
        return (free and not waits) or self.silent_s >= SILENCE_S

    @contextmanager
    def _known_events(self) -> Iterator[None]:
        """Wait for another version, instead of failing, if an event is unknown."""
        try:
            yield
        except UnknownEvent as exc:
            self._unknown = f"{exc}; install that version here"
            log.error("this daemon cannot take over: %s", self._unknown)  # noqa: TRY400

    async def _apply(self, sequence: int, batch: bytes) -> None:
        events = self._restored.replay(sequence, batch)
        if events:
            self._clock.resume_after(self._restored.t)
        self._after = sequence
        self._journal.follow(sequence)
        self._heard_t = boottime()
        await self._mirror(batch, events)
        if events:
            for observe in self._observers:
                observe(events)

    async def _mirror(self, batch: bytes, events: list[Event]) -> None:
        """Append a batch to the audit file, as soon as that is possible."""
        while True:
            try:
                append_missing(self._audit, batch, events)
            except OSError as exc:
                self.audit_problem = f"cannot write the audit file: {exc}"
                log.error("%s", self.audit_problem)  # noqa: TRY400 - the cause is in the text
                await anyio.sleep(AUDIT_AGAIN_S)
            else:
                self.audit_problem = ""
                return

    async def _take_over(self) -> bool:
        """Try to become the writer. Return False if another daemon has appended a batch."""
        writers, now = self.engine.writers, self._clock.now()
        event = WriterChanged(
            seq=self.engine.seq + 1,
            at=now.at,
            t=now.t,
            term=writers.term + 1,
            daemon=self._claimant.daemon,
            version=self._claimant.version,
        )
        self.before, self.planned = writers.daemon, writers.released
        line = encode(event)
        try:
            sequence = await self._journal.append(line)
        except Displaced:
            self._journal.withdraw()
            self._heard_t = boottime()
            return False
        log.info("this daemon writes the journal now, in term %d", event.term)
        await self._apply(sequence, line)
        return True
