"""The final decisions on the proposals of a closed request."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET

from safetyd.core.approvals.request import Request, State
from safetyd.core.decision_cache import DENIED
from safetyd.core.events.event import Event
from safetyd.core.events.request_events import Released
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import ALLOW, BLOCK, Cause, strictest

CAUSES: Final[dict[State, Cause]] = {
    "denied": "human_denied",
    "expired": "expired_no_response",
    "cancelled": "cancelled",
    "superseded": "superseded",
}
HELD: Final = "Approved, but blocked now: "
# Do not change these messages: checkpoints contain them, and older journals must replay alike.
_MESSAGES: Final[dict[State, str]] = {
    "approved": "A person approved this, once.",
    "denied": DENIED,
    "expired": (
        "Nobody answered in time, which is neither a yes nor a no. Do not act; you may ask again."
    ),
    "cancelled": "The question was withdrawn. Do not act.",
    "superseded": "Another proposal took the place of this one. Do not act on this one.",
}


class Conclusion(NamedTuple):
    """The final decision on one proposal, and the request at that time."""

    request: Request
    decision: Decision


def conclusions(request: Request, pending: Decision, event: Event) -> Iterator[Decision]:
    """Yield the final decisions that `event` causes, starting with the first proposal.

    `pending` is the earlier, pending decision on the first proposal. If the request is approved,
    the proposals that joined it are superseded. Otherwise they get the same result as the request.
    """
    yield _first(request, pending, event)
    state = "superseded" if request.state == "approved" else request.state
    for id_ in request.joined:
        yield _ended(request, _of(pending, id_, event), state)


def _first(request: Request, pending: Decision, event: Event) -> Decision:
    decision = _of(pending, request.asked.id, event)
    if not isinstance(event, Released):
        return _ended(request, decision, request.state)
    if event.verdicts:
        return _held(decision, event)
    return msgspec.structs.replace(
        decision,
        decision=ALLOW,
        cause="human_approved",
        reason=_said(request, "approved"),
        agent_message=_MESSAGES["approved"],
        claim_required=decision.reversibility == "irreversible",
        expires_at=request.valid_until,
    )


def _of(pending: Decision, id_: str, event: Event) -> Decision:
    return msgspec.structs.replace(
        pending,
        id=id_,
        status="final",
        expires_at=None,
        reachable_from=UNSET,
        seq=event.seq,
        at=event.at,
    )


def _ended(request: Request, decision: Decision, state: State) -> Decision:
    return msgspec.structs.replace(
        decision,
        decision=BLOCK,
        cause=CAUSES[state],
        reason=_said(request, state),
        agent_message=_MESSAGES[state],
    )


def _held(decision: Decision, event: Released) -> Decision:
    """Return the decision if guards still restrict an approved action. The approval stays valid."""
    headline = strictest(event.verdicts)
    return msgspec.structs.replace(
        decision,
        decision=headline.decision,
        cause=headline.cause,
        reason=f"{HELD}{headline.reason}",
        retry_after_s=headline.retry_after_s,
        limit_id=headline.limit_id,
        agent_message="An operator approved this, but it is blocked now. Propose it again later.",
    )


def _said(request: Request, state: State) -> str:
    answer = request.answer
    if answer is not None and state == "expired":
        return answer.words or "nobody answered in time"
    if answer is None or state == "superseded":
        return f"request {request.id} was {state}"
    words = f": {answer.words}" if answer.words else ""
    return f"{state} by {answer.by}{words}"
