"""The way of an HTTP request to the engine and back: as envelopes, and never for long."""

from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

import anyio

from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Moment
from safetyd.journal.mailbox import Carried, CommandEnvelope, Mailbox, Plan, QuestionEnvelope

PATIENCE_S: Final = 1.25  # after a second the daemon knows that its journal is stuck

Ask = Callable[[Engine, Moment], object]
Answer = Mapping[str, object]  # to what came from a page or by SMS
Told = TypeVar("Told")


class Unanswered(Exception):
    """No answer can be given now; the text says why."""


class GatewayReply:
    """What the engine says, to somebody who may have given up waiting for it."""

    def __init__(self) -> None:
        self._arrived = anyio.Event()
        self._answer: object = None
        self.given_up = False

    def told(self, answer: object) -> None:
        self._answer = answer
        self._arrived.set()

    async def wait(self) -> object:
        with anyio.move_on_after(PATIENCE_S):
            await self._arrived.wait()
            return self._answer
        self.given_up = True
        raise Unanswered(f"no answer came within {PATIENCE_S:g} s")


class EngineGateway:
    """Open while `closed` says nothing; while `muted`, no answer leaves either."""

    def __init__(
        self, mailbox: Mailbox, closed: Callable[[], str], muted: Callable[[], bool]
    ) -> None:
        self._mailbox = mailbox
        self._closed = closed
        self._muted = muted

    async def ask(self, ask: Ask) -> object:
        """Return the answer once all that it speaks of is durable."""
        self._check_open()
        reply = GatewayReply()
        self._mailbox.put(QuestionEnvelope(ask, reply.told))
        return await self._heard(reply)

    async def carry_out(self, plan: Plan[Told], then: Ask) -> tuple[Told, object]:
        """Return the command's answer, and that to a question which follows right behind it.

        A command that was given up before its turn came is not carried out.
        """
        self._check_open()
        reply = GatewayReply()
        turn = GatewayTurn(plan, reply)
        self._mailbox.put(CommandEnvelope(turn.plan, lambda _answer: None))
        self._mailbox.put(QuestionEnvelope(then, reply.told))
        try:
            after = await self._heard(reply)
        except Unanswered as exc:
            raise Unanswered(f"{exc}; {turn.outlook}") from None
        return turn.answer, after

    def _check_open(self) -> None:
        if self._muted():
            raise Unanswered("another daemon may write the journal by now")
        if problem := self._closed():
            raise Unanswered(problem)

    async def _heard(self, reply: GatewayReply) -> object:
        try:
            answer = await reply.wait()
        except Unanswered:
            self._check_open()  # says better why
            raise
        if self._muted():
            self._check_open()
        return answer


class GatewayTurn(Generic[Told]):
    """A command whose turn comes or, if nobody waits for it any more, does not."""

    def __init__(self, plan: Plan[Told], reply: GatewayReply) -> None:
        self._plan = plan
        self._reply = reply
        self._carried: Carried[Told] | None = None

    def plan(self, engine: Engine, moment: Moment) -> Carried[None]:
        if self._reply.given_up:
            return Carried((), None)
        self._carried = self._plan(engine, moment)
        return Carried(self._carried.events, None)

    @property
    def answer(self) -> Told:
        if self._carried is None:
            raise AssertionError("what follows a command is answered after it")
        return self._carried.answer

    @property
    def outlook(self) -> str:
        came = self._carried is not None
        return "look before you try again: it is under way" if came else "nothing was done"
