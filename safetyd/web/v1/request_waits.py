"""Wait for the answer to a request by its id, without sending the proposal again."""

from functools import partial
from typing import NamedTuple

import msgspec

from safetyd.agents.agent_service import AgentService
from safetyd.bus.publisher import Replies
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.events.event import Moment
from safetyd.core.messages.decision import Decision
from safetyd.journal.mailbox import FAILED, Mailbox, QuestionEnvelope
from safetyd.operators.commands import INTERNAL_ERROR


class NoRequest(NamedTuple):
    """The reason why there is no decision to return."""

    code: str
    error: str


class RequestWaits:
    """Proposes the action of a request again on behalf of the agent, and waits for the decision.

    This way the same rules as on the bus decide whether an approval can be used.
    """

    def __init__(self, replies: Replies, mailbox: Mailbox, service: AgentService) -> None:
        self._replies = replies
        self._mailbox = mailbox
        self._service = service

    def wait(self, agent: str, request_id: str, reply: bytes) -> None:
        """Answer with the final decision, or with `NoRequest`."""
        if refused := self._service.not_now(agent, agent, b""):
            self._replies.answer(reply, NoRequest(*refused))
            return
        find = partial(_find, agent, request_id)
        failed = partial(self._replies.answer, reply, NoRequest(INTERNAL_ERROR.code, FAILED))
        self._mailbox.put(QuestionEnvelope(find, partial(self._found, agent, reply), failed))

    def _found(self, agent: str, reply: bytes, found: object) -> None:
        if isinstance(found, Decided):
            proposal = msgspec.structs.replace(found.proposal, wait=True)
            self._service.put(agent, reply, proposal, found.digest, 0)
        elif isinstance(found, Decision):
            self._replies.reply(reply, found)
        else:
            self._replies.answer(reply, found)


def _find(
    agent: str, request_id: str, engine: EngineState, moment: Moment
) -> Decided | Decision | NoRequest:
    """Return the proposal to repeat, or how the request ended."""
    request = engine.approvals.find(request_id)
    if request is None or request.agent != agent or not _proposed_with_key(request):
        return NoRequest("not_found", f"{agent} has no request {request_id}")
    last = engine.recall.last(agent, request.asked.id)
    if last is not None and last.request_id != request.id:
        last = None
    if _is_open(request, last, engine, moment):
        return request.asked
    if last is None or last.allowed or last.status == "pending":
        return NoRequest("gone", f"request {request_id} has ended ({request.state}); propose again")
    return last


def _proposed_with_key(request: Request) -> bool:
    asked = request.asked
    return not (asked.keyless or asked.permission or request.own)


def _is_open(request: Request, last: Decision | None, engine: EngineState, moment: Moment) -> bool:
    """Return True if the action can be proposed again without creating another request."""
    if request.pending or request.unused:
        return not request.over(moment.at, moment.t)
    if last is None or not last.allowed or request.used != request.asked.id:
        return False
    asked = request.asked
    again = Proposed(
        at=moment.at, t=moment.t, agent=asked.agent, proposal=asked.proposal, digest=asked.digest
    )
    return engine.recall.find(again) is last and not request.over(moment.at, moment.t)
