"""Send a query to the daemon until its answer arrives.

Retries are safe. The daemon decides a proposal or permission request once for each id. Repeated
claims and queries get the same answer.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final, Generic, TypeVar

import anyio
import msgspec

from safetyd.client.agent_connection import AgentConnection, AnswerListener, ReceivedAnswer
from safetyd.client.draft import Draft, new_id
from safetyd.client.exceptions import Down, InVain, Lost, NotNow, Unheard
from safetyd.client.results import Denied, PermissionResult, Queued, read_result
from safetyd.client.retry_pauses import growing
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import Cause

A = TypeVar("A")

# The server may lose messages while it loads a changed key. The first retry is after this time,
# and the interval doubles with each retry.
SILENCE_S: Final = 0.5
# On a cluster the interval stays this short, because another daemon may have taken over.
CLUSTER_SILENCE_S: Final = 1.0

# A restarted daemon no longer knows the reply subject of a pending request, so the client sends it
# again. This must be less than two minutes: after that the bus drops replies.
REPEAT_S: Final = 60.0
# The pauses before a message is sent again that no daemon received or answered.
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 0.5

# How often the server may reply "no responders" after the daemon answered on this connection. This
# takes about a second. On a cluster there is no limit.
MAX_GAPS: Final = 5

# How long to wait for the reply after the decision was announced on the decision subject.
BEHIND_S: Final = 0.5

# How long to wait after a request's deadline for the daemon to say that the request expired.
GRACE_S: Final = 2.0
_read = msgspec.json.Decoder(Decision).decode
T = TypeVar("T")
AGAIN_S: Final = 0.5
Read = Callable[[bytes], T | None]


class Exchange(ABC, Generic[A]):
    """A proposal or permission request that is sent until it is answered.

    It is sent again under the same id after silence or a broken connection, and the daemon decides
    it once. While it needs approval, it is sent again every minute.
    """

    verb: ClassVar[str]
    noun: ClassVar[str]

    def __init__(
        self, link: AgentConnection, draft: Draft, *, wait_if_unreachable: bool = False
    ) -> None:
        self._link = link
        self._draft = draft
        self._wait_if_unreachable = wait_if_unreachable
        self._taken = False
        self._announced = False  # True after the end was announced on the decision subject
        self._pending: Decision | None = None
        self._silence_s = SILENCE_S
        self._gaps = 0
        self._pauses = growing(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        self._down: Down | None = None  # why the last attempt failed
        self._patience = anyio.CancelScope()

    async def answer(self, patience_s: float) -> A:
        """Return the answer; with `wait`, return the final one.

        Raises `Down` as soon as it is certain that no daemon receives the message, except:
        - On a cluster, the message is sent again until `patience_s` ends, because another daemon
          may take over.
        - With `wait`, a request that the daemon may have received is retried until `patience_s`
          ends, because an operator may be about to answer it.
        - If the daemon has answered on this connection, a few "no responders" replies are retried.

        With `wait` and without a timeout, a pending request is awaited until it expires. Raises
        `InVain` if nobody can be notified before that, unless `wait_if_unreachable` is set.
        """
        with anyio.move_on_after(patience_s) as self._patience:
            return await self._until_answered()
        if self._pending is not None:
            return self._unanswered(self._pending)
        tried = f"{round(patience_s, 1):g} s"
        if self._down is not None:
            raise Down(f"{self._down}; tried for {tried}")
        silence = f"no answer to this {self.noun} within {tried}"
        raise Down(f"{silence} from {self._link.where}; check `safetyd status`")

    @abstractmethod
    def _heard(self, heard: ReceivedAnswer) -> A | None:
        """Return the final answer, or record an interim one and return None."""

    @abstractmethod
    def _unanswered(self, pending: Decision) -> A:
        """Return the result for a request that is still pending when `patience_s` ends."""

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
                    self._down = down
                    await anyio.sleep(next(self._pauses))
                    continue
                if answer is not None:
                    return answer
                self._taken = True
                self._down = None

    def _outlasts(self, down: Down) -> bool:
        if self._link.retries(down) or (self._draft.wait and self._taken):
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
        if self._link.clustered:
            self._silence_s = min(self._silence_s, CLUSTER_SILENCE_S)
            self._link.doubt()
        return None

    def _note(self, pending: Decision) -> None:
        self._taken = True
        if self._draft.wait and not self._wait_if_unreachable:
            self._check_reachable(pending)
        if self._pending is None and self._draft.wait and not self._draft.timeout_s:
            self._patience.deadline = anyio.current_time() + _lasts_s(pending) + GRACE_S
        self._pending = pending

    def _check_reachable(self, pending: Decision) -> None:
        """Raise `InVain` if nobody can be notified before the wait ends."""
        lasts_s = _lasts_s(pending)
        waits_s = min(self._draft.timeout_s or lasts_s, lasts_s)
        if pending.reachable_from and not pending.answerable_within(waits_s):
            raise InVain(pending, pending.reachable_from)

    def _check_open(self, cause: Cause, reason: str) -> None:
        """Raise `Down` if the request is pending and the daemon is unavailable at the moment."""
        if cause == "unavailable" and self._draft.wait and self._taken:
            raise Down(reason)

    def _own(self, data: bytes) -> Decision | None:
        """Return the decision if it matches this proposal, else None."""
        try:
            decision = _read(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        draft = self._draft
        if (decision.agent, decision.id, decision.digest) != (draft.agent, draft.id, draft.digest):
            return None
        contradictory = decision.allowed and (decision.status == "pending" or decision.retry)
        return None if contradictory else decision


class ProposalExchange(Exchange[Decision]):
    verb = "propose"
    noun = "proposal"

    def _heard(self, heard: ReceivedAnswer) -> Decision | None:
        decision = self._own(heard.data)
        if decision is None:
            return None
        if decision.retry:
            if heard.published:
                return None  # the direct reply says the same
            raise NotNow(decision.reason)
        if decision.status == "pending" and self._draft.wait:
            self._note(decision)
            return None
        self._check_open(decision.cause, decision.reason)
        if heard.published and decision.cause == "human_approved":
            # Only the direct reply grants the approval; other instances also see this notice.
            self._announced = True
            return None
        return decision

    def _unanswered(self, pending: Decision) -> Decision:
        return pending


class PermissionExchange(Exchange[PermissionResult]):
    verb = "permission"
    noun = "permission request"

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
        return Queued(
            request_id=pending.request_id or "", reachable_from=pending.reachable_from or None
        )


def _lasts_s(pending: Decision) -> float:
    """Return how many seconds a request stays open, computed only from the daemon's times."""
    if pending.expires_at is None or pending.at is None:
        return math.inf
    return (pending.expires_at - pending.at).total_seconds()


async def answer_to(
    link: AgentConnection, verb: str, payload: bytes, read: Read[T], deadline_s: float
) -> T:
    """Send a query until `read` accepts an answer. Raise `Down` if none arrives in time."""
    why = f"no answer to this {verb} message within {deadline_s:g} s from {link.where}"
    pauses = growing(FIRST_PAUSE_S, LONGEST_PAUSE_S)
    with link.listen(new_id()) as listener, anyio.move_on_after(deadline_s):
        while True:
            try:
                await link.send(verb, payload, listener)
                with anyio.move_on_after(AGAIN_S):
                    return await _understood(listener, read)
                link.doubt()
            except Down as down:
                why = str(down)
                await anyio.sleep(next(pauses))
    raise Down(why)


async def _understood(listener: AnswerListener, read: Read[T]) -> T:
    while True:
        found = read((await listener.hear()).data)
        if found is not None:
            return found
