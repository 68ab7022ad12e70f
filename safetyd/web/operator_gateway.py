"""Runs queries and commands for operators of the control room."""

from collections.abc import Callable
from typing import Final, TypeVar

import anyio
import msgspec

from safetyd.bus.codec import rejected
from safetyd.bus.question_limits import QuestionLimits
from safetyd.journal.mailbox import Unanswered
from safetyd.operators.command_runner import CommandRunner
from safetyd.operators.contract.question import Call, Question, Role, answer_of, needed_role
from safetyd.operators.handlers import Asker
from safetyd.operators.replies import CommandRefused, Done, Refusal, too_many
from safetyd.web.engine_gateway import EngineGateway, NotBegun

ANSWERED_S: Final = 2.5  # long enough for the daemon to notice a stuck journal

Answer = TypeVar("Answer", bound=Done)


class OperatorGateway:
    """Sends queries and commands as a signed-in operator.

    Raises `CommandRefused` if they are refused, and `Unanswered` if there is no answer.
    """

    def __init__(
        self,
        runner: CommandRunner,
        limits: QuestionLimits,
        gateway: EngineGateway,
        role_of: Callable[[str], Role | None],
    ) -> None:
        self._runner = runner
        self._role_of = role_of
        self._limits = limits
        self._gateway = gateway

    async def ask(self, by: str, call: Call[Answer]) -> Answer:
        """Return the answer to a query or command. Queries wait for the rate limit."""
        if isinstance(call, Question):
            await self._admitted(by, call)
            return await self._heard(by, call)
        if needed_role(type(call)) == "operator" and self._role_of(by) != "operator":
            raise CommandRefused("observer", "observers cannot act")
        try:
            return await self._heard(by, call)
        except NotBegun:
            raise
        except Unanswered as exc:
            raise Unanswered(f"{exc}; check before you try again: it may still happen") from None

    async def _admitted(self, by: str, question: Question[Done]) -> None:
        """Wait until the operator's rate limit admits a query."""
        waited = 0.0
        while (wait := self._limits.admit(by, 0, lambda: question.protecting)) > 0:
            waited += wait
            if waited > ANSWERED_S:
                raise Unanswered(f"{too_many(by)} Try again in {wait:.1f} s")
            await anyio.sleep(wait)

    async def _heard(self, by: str, call: Call[Answer]) -> Answer:
        try:
            checked = msgspec.convert(msgspec.to_builtins(call), type(call))
        except msgspec.ValidationError as exc:
            raise CommandRefused("invalid", rejected(exc)) from None
        answer = await self._gateway.hear(
            lambda told: self._runner.run(checked, Asker(by, told, pack=_as_it_is)),
            ANSWERED_S,
            always=call.always,
        )
        if isinstance(answer, Refusal):
            raise CommandRefused(answer.code, answer.error)
        if not isinstance(answer, kind := answer_of(type(call))):
            raise TypeError(f"the answer to {type(call).__name__} is not a {kind.__name__}")
        return answer


def _as_it_is(answer: msgspec.Struct) -> msgspec.Struct:
    return answer
