"""Gets sign-in links to the control rooms of other daemons.

Operators reach the writer over the bus. It knows who asks, and passes the question on.
"""

import logging
from typing import Final

import msgspec
import nats.errors
from nats.aio.subscription import Subscription

from safetyd.bus.nats_client import pub
from safetyd.core.messages.proposal import is_token
from safetyd.daemon.resources import Resources
from safetyd.operators.contract.session_contract import SignInAnswer, SignInQuestion
from safetyd.operators.handlers import Handlers, work
from safetyd.operators.replies import CommandRefused, Refusal, Reply, refused
from safetyd.web.control_room.entrance import Entrance

ANSWER_S: Final = 2.0
SIGN_IN: Final = "sign_in"

log = logging.getLogger("safetyd.standby")


class AskedSignIn(msgspec.Struct, frozen=True):
    """A question for a link, and the operator who asks."""

    by: str
    question: SignInQuestion


class _Outcome(msgspec.Struct):
    ok: bool


class ForwardedSignIn:
    """Answers for this daemon, and asks the others."""

    def __init__(self, of: Resources, entrance: Entrance) -> None:
        self._of = of
        self._entrance = entrance
        self._client = of.connections.questions.client
        self._subscription: Subscription | None = None
        self.handlers: Handlers = dict([work(SignInQuestion, self._sign_in)])

    async def hear(self) -> None:
        """Start to receive questions of the writer."""
        self._subscription = await self._client.handle(self._subject(self._of.name), self._receive)

    async def leave(self) -> None:
        """Receive no more."""
        heard, self._subscription = self._subscription, None
        if heard is not None and self._client.is_connected:
            await self._client.leave(heard)

    def _subject(self, daemon: str) -> str:
        return self._of.subjects.internal(f"{SIGN_IN}.{daemon}")

    async def _sign_in(self, by: str, question: SignInQuestion) -> Reply:
        daemon = question.daemon
        if daemon in {"", self._of.name}:
            return self._entrance.sign_in(by, question)
        if not is_token(daemon):
            raise CommandRefused("invalid", f"{daemon!r} is not the name of a daemon")
        asked = msgspec.json.encode(AskedSignIn(by, question))
        try:
            answer = await self._client.request(self._subject(daemon), asked, timeout=ANSWER_S)
        except (nats.errors.Error, TimeoutError, OSError):
            raise CommandRefused(
                "not_found", f"no daemon {daemon} answers. `safetyd cluster` lists the daemons"
            ) from None
        if msgspec.json.decode(answer.data, type=_Outcome).ok:
            return msgspec.json.decode(answer.data, type=SignInAnswer)
        return msgspec.json.decode(answer.data, type=Refusal)

    def _receive(self, _subject: bytes, reply: bytes, payload: bytes) -> None:
        try:
            asked = msgspec.json.decode(payload, type=AskedSignIn)
        except msgspec.DecodeError:
            log.warning("a daemon sent a question that cannot be read")
            return
        answer: Reply = refused(
            "refused", f"{self._of.name} does not know operator {asked.by}: share the keys with it"
        )
        if self._of.settings.role_of(asked.by) is not None:
            answer = self._entrance.sign_in(asked.by, asked.question)
        self._client.send(pub(reply, msgspec.json.encode(answer)))
