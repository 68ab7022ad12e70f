"""Permission requests. They are converted to proposals, and answered in their own format."""

from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from safetyd.bus.codec import Malformed, read_given, read_proposal
from safetyd.core.approvals.final_decisions import CAUSES
from safetyd.core.approvals.request import Request, State
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.events.request_events import Cancelled
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import (
    MAX_WORD,
    Json,
    Proposal,
    Prose,
    Token,
    Urgency,
    Word,
    canonical,
)
from safetyd.core.messages.rollback import Rollback
from safetyd.core.messages.verdict import ALLOW, Cause
from safetyd.journal.mailbox import Carried, Plan

MAX_OPEN: Final = 200  # maximum number of requests in one answer
WITHDRAWN: Final = "the agent withdrew the request"


class PermissionAsk(msgspec.Struct, kw_only=True):
    """A permission request, with `action`, or a question about the agent's own requests."""

    # The type of action that needs approval.
    action: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    id: Token | None = None  # Your id for the request.
    description: Prose = ""  # A description of the action for operators.
    rationale: Prose = ""  # Why the action is needed.
    urgency: Urgency = "normal"  # How urgently you need an answer.
    wait: bool = False  # True: you get the reply when the request has ended.
    context: Json = None  # Details of the action, with the field names of a proposal.
    # For how many minutes the request stays open.
    timeout_minutes: Annotated[float, Meta(ge=0)] | None = None
    session: Word | None = None  # The session of the action; default: the one in `context`.
    request_id: str | None = None  # Ask for the state of this request of yours.
    # True: withdraw this request of yours. `rationale` may say why.
    withdraw: bool = False
    open: bool = False  # True: ask for your requests that are pending, or approved and unused.
    rollbacks: bool = False  # True: ask for the last rollback of each of your projects.


class OwnRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of an agent's own requests."""

    request_id: str  # The id of the request.
    action: str  # The type of action.
    status: State  # The state of the request.
    expires_at: datetime | None  # When the request, or its approval, expires.
    message: str = ""  # The operator's message.
    reason: str = ""  # Why it was not approved.


class PermissionResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer: approved, denied with a reason, or queued.

    For `open`, it has the agent's own requests. For `rollbacks`, it has the last rollback of each
    project of the agent, oldest first.
    """

    approved: bool | None = None  # True: you may act, once.
    message: str | None = None  # The operator's message.
    reason: str | None = None  # Why it was not approved.
    timeout_minutes: float | UnsetType | None = UNSET  # How long the request was open.
    cause: Cause | None = None  # The kind of reason, for programs.
    queued: bool | None = None  # True: the request is pending.
    request_id: str | None = None  # The id of the pending request.
    # When somebody who may answer can be notified, if nobody can be now.
    reachable_from: datetime | None = None
    requests: tuple[OwnRequest, ...] | None = None  # The answer to `open`.
    rollbacks: tuple[Rollback, ...] | None = None  # The answer to `rollbacks`.
    # True: safetyd cannot answer now, but may soon. Send the message again with the same id.
    retry: bool | None = None


_decode = msgspec.json.Decoder(PermissionAsk).decode


def read_ask(payload: bytes) -> PermissionAsk:
    given = read_given(payload)
    try:
        ask = _decode(given)
    except msgspec.ValidationError as exc:
        raise Malformed(f"not a permission request: {exc}") from None
    if ask.withdraw and (ask.request_id is None or ask.action is not None):
        raise Malformed('"withdraw" needs the "request_id" of a request, and no "action"')
    if ask.action is None and ask.request_id is None and not (ask.open or ask.rollbacks):
        raise Malformed(
            'a permission request needs "action"; a question needs "request_id", "open" or '
            '"rollbacks"'
        )
    return ask


def as_proposal(agent: str, ask: PermissionAsk, spare_id: str) -> tuple[Proposal, str]:
    """Return the proposal for a permission request, and its digest."""
    context = ask.context if isinstance(ask.context, dict) else None
    text = context.get("text") if context else None
    if context and context.get("description", ask.description) != ask.description:
        raise Malformed("description and context.description differ: send only one of them")
    fields: dict[str, object] = {
        "type": ask.action,
        "id": ask.id or spare_id,
        "description": ask.description,
        "rationale": ask.rationale,
        "urgency": ask.urgency,
        "wait": ask.wait,
    }
    if context is not None:
        fields["context"] = context
    if isinstance(text, str):
        fields["text"] = text
    if ask.timeout_minutes is not None:
        fields["timeout_s"] = ask.timeout_minutes * 60
    if ask.session is not None:
        fields["session"] = ask.session
    proposal, digest = read_proposal(agent, canonical(fields), spare_id)
    shown = context.get("session") if context else None
    if ask.session is None and isinstance(shown, str) and shown:
        # The digest does not cover it, because clients compute the same digest without it.
        proposal = msgspec.structs.replace(proposal, session=shown[:MAX_WORD])
    return proposal, digest


def result(decision: Decision, request: Request | None) -> PermissionResult:
    """Return the answer to a permission request."""
    if decision.status == "pending":
        return PermissionResult(
            queued=True,
            request_id=decision.request_id,
            reachable_from=decision.reachable_from or None,
        )
    words = request.answer.words if request is not None and request.answer else ""
    if decision.decision is ALLOW:
        return PermissionResult(approved=True, message=words)
    if decision.cause == "expired_no_response":
        return _timeout(request)
    reason = words if decision.cause == "human_denied" and words else decision.reason
    return not_permitted(decision.cause, reason)


def _ended(request: Request) -> PermissionResult:
    """Return the result of a request from its state, if its decision is no longer in memory."""
    words = request.answer.words if request.answer else ""
    if request.state == "approved":
        return PermissionResult(approved=True, message=words)
    if request.state == "expired":
        return _timeout(request)
    reason = words or f"request {request.id} was {request.state}"
    return not_permitted(CAUSES[request.state], reason)


def _timeout(request: Request | None) -> PermissionResult:
    return PermissionResult(
        approved=False,
        reason="timeout",
        timeout_minutes=_minutes(request),
        cause="expired_no_response",
    )


def not_permitted(cause: Cause, reason: str, *, retry: bool = False) -> PermissionResult:
    return PermissionResult(approved=False, reason=reason, cause=cause, retry=retry or None)


def _minutes(request: Request | None) -> float | None:
    """Return how long the request was open."""
    if request is None or request.deadline is None:
        return None
    minutes = (request.deadline - request.asked.at).total_seconds() / 60
    return int(minutes) if minutes.is_integer() else round(minutes, 3)


def own(request: Request) -> OwnRequest:
    """Return the row of a request for the answer to `open`."""
    words = "" if request.answer is None else request.answer.words
    approved = request.state == "approved"
    return OwnRequest(
        request_id=request.id,
        action=request.asked.type,
        status=request.state,
        expires_at=request.deadline if request.pending else request.valid_until,
        message=words if approved else "",
        reason="" if approved else words,
    )


def withdrawn(agent: str, ask: PermissionAsk, *, keyless: bool) -> Plan[PermissionResult]:
    """Return a plan that withdraws an agent's own request, and answers with the request's state.

    If the agent has proposed the action more than once, the request stays for the others.
    """

    def plan(state: EngineState, moment: Moment) -> Carried[PermissionResult]:
        request = state.approvals.find(ask.request_id or "")
        mine = request is not None and request.agent == agent and not request.own
        if request is None or not mine or (keyless and not request.asked.keyless):
            return Carried(
                (), not_permitted("malformed", f"{agent} has no request {ask.request_id}")
            )
        if not request.pending or request.repeats or request.over(moment.at, moment.t):
            return Carried((), asked_about(state, agent, ask))
        cancelled = Cancelled(
            at=moment.at,
            t=moment.t,
            request_id=request.id,
            by=agent,
            via="bus",
            reason=ask.rationale,
        )
        return Carried((cancelled,), not_permitted("cancelled", WITHDRAWN))

    return plan


def asked_about(state: EngineState, agent: str, ask: PermissionAsk) -> PermissionResult:
    """Answer an agent's question about its own requests and rollbacks."""
    if ask.rollbacks:
        return PermissionResult(rollbacks=state.records.file_commits.rollbacks(agent))
    if ask.open:
        mine = [*state.approvals.pending(agent), *state.approvals.unused(agent)]
        return PermissionResult(requests=tuple(map(own, mine[:MAX_OPEN])))
    request = state.approvals.find(ask.request_id or "")
    if request is None or request.agent != agent:
        error = f"{agent} has no request {ask.request_id}"
        return not_permitted("malformed", error)
    if request.pending:
        return result(state.recall.answer(request.asked), request)
    last = state.recall.last(agent, request.asked.id)
    if last is None or last.request_id != request.id:
        return _ended(request)
    return result(last, request)
