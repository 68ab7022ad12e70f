"""The way of an operator's web request to the commands and questions of everybody, and back."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import anyio
import msgspec

from safetyd.bus.codec import rejected
from safetyd.bus.question_limits import QuestionLimits
from safetyd.journal.mailbox import Unanswered
from safetyd.operators.command_runner import CommandRunner, Told
from safetyd.operators.commands import CommandRefused
from safetyd.operators.replies import too_many
from safetyd.web.engine_gateway import EngineGateway, NotBegun

ANSWERED_S: Final = 2.5  # by then the daemon knows that its journal is stuck

Answer = dict[str, Any]
Fields = dict[str, object]
Run = Callable[[str, Fields, Told], None]

_encode = msgspec.json.Encoder().encode


class OperatorGateway:
    """Asks and commands in the name of somebody who is signed in.

    What is refused is raised as `CommandRefused`, what nobody answers as `Unanswered`.
    """

    def __init__(
        self, runner: CommandRunner, limits: QuestionLimits, gateway: EngineGateway
    ) -> None:
        self._runner = runner
        self._limits = limits
        self._gateway = gateway

    async def ask(self, by: str, command: str, **fields: object) -> Answer:
        """Return the answer to a question, once the share of who asks has room for it."""
        waited = 0.0
        while (wait := self._limits.admit(by, 0, lambda: command)) > 0:
            waited += wait
            if waited > ANSWERED_S:
                raise Unanswered(f"{too_many(by)} Try again in {wait:.1f} s")
            await anyio.sleep(wait)
        return await self._heard(self._runner.question, by, {"command": command, **fields})

    async def control(self, by: str, command: str, **fields: object) -> Answer:
        return await self._carried_out(self._runner.command, by, {"command": command, **fields})

    async def review(self, by: str, command: str, **fields: object) -> Answer:
        return await self._carried_out(self._runner.review, by, {"command": command, **fields})

    async def _carried_out(self, run: Run, by: str, fields: Fields) -> Answer:
        try:
            return await self._heard(run, by, fields)
        except NotBegun:
            raise
        except Unanswered as exc:
            raise Unanswered(f"{exc}; look before you try again: it may be under way") from None

    async def _heard(self, run: Run, by: str, fields: Fields) -> Answer:
        try:
            told = await self._gateway.hear(partial(run, by, fields), ANSWERED_S)
        except msgspec.ValidationError as exc:
            raise CommandRefused("invalid", rejected(exc)) from None
        answer: Answer = msgspec.json.decode(_encode(told))
        if not answer.get("ok"):
            raise CommandRefused(str(answer.get("code", "")), str(answer.get("error", "")))
        return answer
