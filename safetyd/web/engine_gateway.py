"""Passes queries and commands of HTTP requests to the engine and waits for the answers."""

from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

import anyio

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.journal.mailbox import (
    Carried,
    CommandEnvelope,
    Mailbox,
    Plan,
    QuestionEnvelope,
    Unanswered,
)
from safetyd.operators.commands import INTERNAL_ERROR

PATIENCE_S: Final = 1.25  # a bit longer than the daemon needs to notice a stuck journal

Ask = Callable[[EngineState, Moment], object]
Answer = Mapping[str, object]  # the outcome of an operator's answer from a page or by SMS
Told = TypeVar("Told")


class NotBegun(Unanswered):
    """The engine never received the command and will not carry it out later."""


class GatewayReply:
    """The engine's answer to a caller that may have stopped waiting."""

    def __init__(self) -> None:
        self._arrived = anyio.Event()
        self._answer: object = None
        self._failed = False
        self.given_up = False

    def told(self, answer: object) -> None:
        self._answer = answer
        self._arrived.set()

    def failed(self) -> None:
        self._failed = True
        self._arrived.set()

    async def wait(self, patience_s: float) -> object:
        with anyio.move_on_after(patience_s):
            await self._arrived.wait()
            if self._failed:
                raise Unanswered(INTERNAL_ERROR.error)
            return self._answer
        self.given_up = True
        raise Unanswered(f"no answer within {patience_s:g} s")


class EngineGateway:
    """`closed` returns why nothing is answered, or "". While `muted`, no answers are sent.

    `standby` returns why this daemon carries out no commands, or "".
    """

    def __init__(
        self,
        mailbox: Mailbox,
        closed: Callable[[], str],
        muted: Callable[[], bool],
        standby: Callable[[], str] = str,
    ) -> None:
        self.mailbox = mailbox
        self._closed = closed
        self._muted = muted
        self._standby = standby

    def record(self, make: Callable[[Moment], Event]) -> None:
        """Record an event without waiting for it. A standby records nothing."""
        if not self._standby():
            self.mailbox.record(make)

    async def ask(self, ask: Ask) -> object:
        """Return the answer once everything in it is durable."""
        self._check_open()
        reply = GatewayReply()
        self.mailbox.put(QuestionEnvelope(ask, reply.told, reply.failed))
        return await self._heard(reply, PATIENCE_S)

    async def hear(
        self,
        put: Callable[[Callable[[object], None]], None],
        patience_s: float,
        *,
        always: bool = False,
    ) -> object:
        """Return the value that `put` passes to its callback.

        With `always`, it is returned even if another daemon may be writing the journal.
        """
        reply = GatewayReply()
        if always:
            put(reply.told)
            return await reply.wait(patience_s)
        if self._muted():
            self._check_open()
        put(reply.told)
        return await self._heard(reply, patience_s)

    async def carry_out(self, plan: Plan[Told], then: Ask) -> tuple[Told, object]:
        """Carry out a command, then a query. Return both answers.

        If the caller stops waiting before the command's turn, the command is not carried out.
        """
        self._check_open()
        if why := self._standby():
            raise NotBegun(why)
        reply = GatewayReply()
        turn = GatewayTurn(plan, reply)
        self.mailbox.put(CommandEnvelope(turn.plan, lambda _answer: None, reply.failed))
        self.mailbox.put(QuestionEnvelope(then, reply.told, reply.failed))
        try:
            after = await self._heard(reply, PATIENCE_S)
        except Unanswered as exc:
            raise Unanswered(f"{exc}; {turn.outlook}") from None
        return turn.answer, after

    def _check_open(self) -> None:
        if problem := self._problem():
            raise NotBegun(problem)

    def _problem(self) -> str:
        return "another daemon may be writing the journal" if self._muted() else self._closed()

    async def _heard(self, reply: GatewayReply, patience_s: float) -> object:
        try:
            answer = await reply.wait(patience_s)
        except Unanswered as exc:
            raise Unanswered(self._problem() or str(exc)) from None  # the better reason
        if self._muted():
            raise Unanswered(self._problem())
        return answer


class GatewayTurn(Generic[Told]):
    """A command that is skipped if its caller has stopped waiting."""

    def __init__(self, plan: Plan[Told], reply: GatewayReply) -> None:
        self._plan = plan
        self._reply = reply
        self._carried: Carried[Told] | None = None

    def plan(self, engine: EngineState, moment: Moment) -> Carried[None]:
        if self._reply.given_up:
            return Carried((), None)
        self._carried = self._plan(engine, moment)
        return Carried(self._carried.events, None)

    @property
    def answer(self) -> Told:
        if self._carried is None:
            raise AssertionError("the command has not been carried out yet")
        return self._carried.answer

    @property
    def outlook(self) -> str:
        came = self._carried is not None
        return "check before you try again: it may still happen" if came else "nothing was done"
