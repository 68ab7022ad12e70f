"""Claims: only the first claimant of an approved action may proceed, and may repeat its claim."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from safetyd.agents.followed_links import moved
from safetyd.bus.codec import Malformed, read_given
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.events.request_events import Claimed
from safetyd.core.messages.verdict import ALLOWED, Cause
from safetyd.journal.mailbox import Carried, Plan

ClaimCause = Literal["already_claimed", "not_approved", "expired", "digest_mismatch"] | Cause
Word = Annotated[str, Meta(min_length=1, max_length=128)]


class Claim(msgspec.Struct, kw_only=True):
    id: Word  # The id of the approved proposal.
    digest: Word  # The digest of its decision.
    claimant: Word | None = None  # Your name. You can repeat a claim under it.


class ClaimResult(msgspec.Struct, frozen=True, kw_only=True):
    """Whether this claimant, and no other, may perform the action now."""

    granted: bool  # True: you, and nobody else, may act now.
    cause: ClaimCause  # The kind of reason, as a code for programs.
    reason: str  # Why the claim was not granted.
    # True: safetyd cannot answer now, but may soon. Send the claim again.
    retry: bool | UnsetType = UNSET


_GRANTED: Final = ClaimResult(granted=True, cause="human_approved", reason="")
_decode = msgspec.json.Decoder(Claim).decode


def read_claim(payload: bytes) -> Claim:
    given = read_given(payload)
    try:
        return _decode(given)
    except msgspec.ValidationError as exc:
        raise Malformed(str(exc)) from None


def claim(agent: str, wanted: Claim, nonce: str, *, keyless: bool = False) -> Plan[ClaimResult]:
    """Return a plan that grants an approved action to one claimant.

    If the claim names no claimant, `nonce` is used.
    """
    claimant = wanted.claimant or nonce

    def plan(state: EngineState, moment: Moment) -> Carried[ClaimResult]:
        request = state.approvals.of_proposal(agent, wanted.id)
        if request is not None and keyless and not request.asked.keyless:
            request = None  # the request belongs to an agent with a key
        refusal = _refusal(request, wanted, claimant, moment)
        if refusal is not None or request is None:
            return _refused(*(refusal or ("not_approved", "unknown proposal")))
        held = state.holds_back(request.asked, moment)
        if held is not ALLOWED:
            return _refused(held.cause, held.reason)
        if why := moved(state, request.asked):
            return _refused("not_approved", f"{why}. Propose it again")
        if request.claimant == claimant:
            return Carried((), _GRANTED)
        return _granted(request, wanted, claimant, moment)

    return plan


def _refusal(
    request: Request | None, wanted: Claim, claimant: str, moment: Moment
) -> tuple[ClaimCause, str] | None:
    if request is None or request.state != "approved":
        return "not_approved", f"{wanted.id} is not approved"
    if request.digest_of(wanted.id) != wanted.digest:
        return "digest_mismatch", "the approved action has another digest"
    if request.claimant is not None and request.claimant != claimant:
        return "already_claimed", f"{wanted.id} was already claimed"
    if wanted.id != (request.used or request.asked.id):
        cause: ClaimCause = "already_claimed" if request.used else "not_approved"
        return cause, f"the approval is for {request.used or request.asked.id}"
    over = request.valid_until is None or request.over(moment.at, moment.t)
    if request.lapsed or (over and request.claimant is None):
        return "expired", "the approval has expired"
    return None


def _granted(
    request: Request, wanted: Claim, claimant: str, moment: Moment
) -> Carried[ClaimResult]:
    claimed = Claimed(
        at=moment.at,
        t=moment.t,
        request_id=request.id,
        agent=request.agent,
        id=wanted.id,
        claimant=claimant,
    )
    return Carried((claimed,), _GRANTED)


def _refused(cause: ClaimCause, reason: str) -> Carried[ClaimResult]:
    return Carried((), not_granted(cause, reason))


def not_granted(cause: ClaimCause, reason: str, *, retry: bool = False) -> ClaimResult:
    return ClaimResult(granted=False, cause=cause, reason=reason, retry=retry or UNSET)
