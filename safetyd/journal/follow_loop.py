"""The loop of a standby: it answers questions from the followed state, and forwards stops.

It has the engine of the standby, which changes only by batches of the writer. So an envelope that
wants to record something is dropped, except a stop or resume, which the writer records.
"""

import logging
from collections.abc import Awaitable, Callable

import anyio

from safetyd.clock import Clock
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import Resumed, Stopped
from safetyd.journal.mailbox import Effects, Envelope, Mailbox
from safetyd.journal.question_loop import answer_questions
from safetyd.journal.standby import Standby

log = logging.getLogger("safetyd.standby")

# Sends a stop or resume to the writer. Returns once the journal has it.
Forward = Callable[[Stopped | Resumed], Awaitable[None]]


class FollowLoop:
    """Answers from the standby's engine."""

    unwritten_s = 0.0
    server_owes_s = 0.0
    stalled = ""

    def __init__(
        self,
        mailbox: Mailbox,
        standby: Standby,
        clock: Clock,
        forward: Forward,
    ) -> None:
        self.mailbox = mailbox
        self._standby = standby
        self._clock = clock
        self._forward = forward

    @property
    def seq(self) -> int:
        return self._standby.engine.seq

    @property
    def lost(self) -> str:
        return self._standby.lost

    @property
    def problem(self) -> str:
        # An event of a newer version is no reason to restart this daemon.
        return self.audit_problem

    @property
    def audit_problem(self) -> str:
        return self._standby.audit_problem

    async def run(self) -> None:
        """Open envelopes forever."""
        async with anyio.create_task_group() as tasks:
            while True:
                await self.mailbox.wait()
                while (envelope := self.mailbox.take()) is not None:
                    self._open(envelope, tasks)

    async def answer(self) -> None:
        """Answer questions forever."""
        await answer_questions(
            self.mailbox,
            self._standby.engine,
            self._clock,
            lambda question: question.deliver(late=False),
        )

    def _open(self, envelope: Envelope, tasks: anyio.abc.TaskGroup) -> None:
        engine = self._standby.engine
        events = envelope.open(engine, self._clock.now())
        if not events:
            envelope.note(engine, Effects((), None))
            envelope.deliver(late=False)
            return
        event = events[0]
        if isinstance(event, Stopped | Resumed):
            tasks.start_soon(self._send, envelope, event)
        else:
            log.debug("a standby does not record %s", _tag(event))

    async def _send(self, envelope: Envelope, event: Stopped | Resumed) -> None:
        await self._forward(event)
        envelope.deliver(late=False)


def _tag(event: Event) -> str:
    return str(type(event).__struct_config__.tag)
