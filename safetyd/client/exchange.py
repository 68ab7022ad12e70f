"""One question put to the daemon until there is an answer that is its own.

A proposal or permission ask is held under its id; claims and an agent's own requests are answered
the same however often they are asked.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final, Generic, TypeVar

import anyio
import msgspec

from safetyd.client.agent_connection import AgentConnection, AnswerListener, ReceivedAnswer
from safetyd.client.draft import Draft, new_id
from safetyd.client.exceptions import Down, Lost, Unheard
from safetyd.client.results import Denied, PermissionResult, Queued, read_result
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import Cause

A = TypeVar("A")

# While the server takes on a changed key, what passes through it may be lost: silence is asked
# about again after this, and then after twice as long each time.
SILENCE_S: Final = 0.5

# A held reply does not live through a restart of the daemon, so it is asked for again. The bus
# forgets the way back of a reply after two minutes; this must be less.
REPEAT_S: Final = 60.0
PAUSE_S: Final = 0.25

# How often a daemon that has answered on this connection may not be found by the server.
MAX_GAPS: Final = 4

# How long the reply may be behind the notice that there is one.
BEHIND_S: Final = 0.5

# Beyond a request's deadline, for the word that it is over.
GRACE_S: Final = 2.0
_read = msgspec.json.Decoder(Decision).decode
T = TypeVar("T")
AGAIN_S: Final = 0.5
Read = Callable[[bytes], T | None]


class Exchange(ABC, Generic[A]):
    """The same id is sent again after silence and a break; the daemon decides it once.

    Once a person is asked, it is sent again every minute.
    """

    verb: ClassVar[str]
    noun: ClassVar[str]

    def __init__(self, link: AgentConnection, draft: Draft) -> None:
        self._link = link
        self._draft = draft
        self._taken = False
        self._announced = False  # the end, on the decision subject
        self._pending: Decision | None = None
        self._silence_s = SILENCE_S
        self._gaps = 0
        self._patience = anyio.CancelScope()

    async def answer(self, patience_s: float) -> A:
        """Return the answer, for who waits the final one.

        Raises `Down` as soon as it is plain that nobody hears. What waits and may have been heard
        once outlasts that, since a person may be about to answer it; and anything a moment in which
        the server does not find a daemon that it has just found. Who names no time waits as long as
        the request does.
        """
        with anyio.move_on_after(patience_s) as self._patience:
            return await self._until_answered()
        if self._pending is None:
            silence = f"no answer to this {self.noun} came within {round(patience_s, 1):g} s"
            raise Down(f"{silence} from {self._link.where}; look at `safetyd status`")
        return self._unanswered(self._pending)

    @abstractmethod
    def _heard(self, heard: ReceivedAnswer) -> A | None:
        """Return the answer if this is it, and take note of what is said before."""

    @abstractmethod
    def _unanswered(self, pending: Decision) -> A:
        """Return what is known when patience ends before the request does."""

    async def _until_answered(self) -> A:
        with self._link.listen(self._draft.id) as listener:
            while True:
                try:
                    answer = await self._ask(listener)
                except Lost:
                    answer = None
                except Down as down:
                    if not self._outlasts(down):
                        raise
                    await anyio.sleep(PAUSE_S)
                    continue
                if answer is not None:
                    return answer
                self._taken = True

    def _outlasts(self, down: Down) -> bool:
        if self._draft.wait and self._taken:
            return True
        self._gaps += 1
        found = isinstance(down, Unheard) and self._link.answered
        return found and self._gaps <= MAX_GAPS

    async def _ask(self, listener: AnswerListener) -> A | None:
        await self._link.send(self.verb, self._draft.payload, listener)
        self._announced = False
        began = anyio.current_time()
        with anyio.move_on_after(min(self._silence_s, REPEAT_S)) as turn:
            while True:
                answer = self._heard(await listener.hear())
                if answer is not None:
                    return answer
                if self._announced:
                    turn.deadline = min(turn.deadline, anyio.current_time() + BEHIND_S)
                elif self._pending is not None:
                    turn.deadline = began + REPEAT_S
        self._silence_s *= 2
        return None

    def _note(self, pending: Decision) -> None:
        self._taken = True
        if self._pending is None and self._draft.wait and not self._draft.timeout_s:
            self._patience.deadline = anyio.current_time() + _lasts_s(pending)
        self._pending = pending

    def _check_open(self, cause: Cause, reason: str) -> None:
        """Raise `Down` for a daemon that is just starting or stopping while a person is asked."""
        if cause == "unavailable" and self._draft.wait and self._taken:
            raise Down(reason)

    def _own(self, data: bytes) -> Decision | None:
        """Return the decision if it is about this proposal; anything else is no answer."""
        try:
            decision = _read(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        draft = self._draft
        if (decision.agent, decision.id, decision.digest) != (draft.agent, draft.id, draft.digest):
            return None
        contradictory = decision.allowed and decision.status == "pending"
        return None if contradictory else decision


class ProposalExchange(Exchange[Decision]):
    verb = "propose"
    noun = "proposal"

    def _heard(self, heard: ReceivedAnswer) -> Decision | None:
        decision = self._own(heard.data)
        if decision is None:
            return None
        if decision.status == "pending" and self._draft.wait:
            self._note(decision)
            return None
        self._check_open(decision.cause, decision.reason)
        if heard.published and decision.cause == "human_approved":
            # An approval is used by who is answered; that it was given, anybody may hear.
            self._announced = True
            return None
        return decision

    def _unanswered(self, pending: Decision) -> Decision:
        return pending


class PermissionExchange(Exchange[PermissionResult]):
    verb = "permission"
    noun = "ask"

    def _heard(self, heard: ReceivedAnswer) -> PermissionResult | None:
        if not heard.published:
            result = read_result(heard.data)
            if isinstance(result, Denied):
                self._check_open(result.cause, result.reason)
            return result
        decision = self._own(heard.data)
        if decision is None:
            return None
        if decision.status == "pending":
            self._note(decision)
        else:
            self._announced = True
        return None

    def _unanswered(self, pending: Decision) -> PermissionResult:
        return Queued(request_id=pending.request_id or "")


def _lasts_s(pending: Decision) -> float:
    """Return for how long a request is open, by the daemon's clock alone."""
    if pending.expires_at is None or pending.at is None:
        return math.inf
    return (pending.expires_at - pending.at).total_seconds() + GRACE_S


async def answer_to(
    link: AgentConnection, verb: str, payload: bytes, read: Read[T], deadline_s: float
) -> T:
    """Send until there is an answer that `read` understands; raise `Down` if none comes in time."""
    why = f"no answer to this {verb} came within {deadline_s:g} s from {link.where}"
    with link.listen(new_id()) as listener, anyio.move_on_after(deadline_s):
        while True:
            try:
                await link.send(verb, payload, listener)
                with anyio.move_on_after(AGAIN_S):
                    return await _understood(listener, read)
            except Down as down:
                why = str(down)
                await anyio.sleep(PAUSE_S)
    raise Down(why)


async def _understood(listener: AnswerListener, read: Read[T]) -> T:
    while True:
        found = read((await listener.hear()).data)
        if found is not None:
            return found
