"""Requests for approval: the queue, one request, the log of them, and the answers."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from safetyd.core.approvals.request import Answer, KeptChange, State
from safetyd.core.events.notification_events import DeliveryState
from safetyd.core.messages.proposal import Proposal, Reversibility, Risk, Tier, Urgency
from safetyd.core.messages.verdict import CommandPart, Verdict
from safetyd.operators.contract.grant_contract import GrantOffer, RequestGrantTerms
from safetyd.operators.contract.hold_contract import Via
from safetyd.operators.contract.question import Question, Review
from safetyd.operators.replies import Done

Limit = Annotated[int, Meta(ge=1, le=1000)]


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """A request in the queue; `text` and `description` are cut short."""

    id: str
    agent: str
    type: str
    unknown: bool  # a type that nobody configured
    text: str
    description: str
    whole: bool  # its text is here, and is all that would be done
    urgency: Urgency
    risk: Risk
    path: str | UnsetType = UNSET  # the first that it names
    paths: int | UnsetType = UNSET  # how many it names
    rule: str
    reason: str
    parts: tuple[CommandPart, ...] | UnsetType = UNSET  # of a command, that do not pass
    grant: GrantOffer | UnsetType = UNSET  # what may be granted with an approval
    asked_at: datetime
    deadline: datetime | None
    left_s: float | None
    until: datetime | None  # put off until then
    repeats: int
    digest: str
    permission: bool  # asked beforehand: it is for a proposal that is yet to come
    undeliverable: bool  # every channel refused to tell of it


class PendingAnswer(Done, frozen=True, kw_only=True):
    """Oldest first. If `more` follow, ask again `after` the last one."""

    requests: tuple[RequestRow, ...]
    pending: int  # how many there are
    channels: tuple[str, ...]  # on which people are told
    more: bool


class PendingQuestion(Question[PendingAnswer], frozen=True, kw_only=True, tag="pending"):
    """List pending requests: at most `limit`, oldest first, that follow `after`.

    Without `grants`, rows do not say what may be granted with an approval.
    """

    paths = ("/requests",)
    protecting = True
    limit: Limit = 1000
    after: str = ""
    agent: str | None = None
    grants: bool = True


class RequestEnded(msgspec.Struct, frozen=True, kw_only=True):
    """How a request ended; an approval may still be unused."""

    request_id: str
    agent: str
    action: str
    text: str
    path: str | UnsetType = UNSET  # the first that it named
    paths: int | UnsetType = UNSET
    decision: State
    decided_at: datetime | None
    decided_via: str | None
    decided_by: str | None
    words: str
    response_time_seconds: float | None
    used: str  # the id of the proposal that used an approval, or nothing
    change: KeptChange | UnsetType = UNSET  # what the action changed, if that was committed


class HistoryAnswer(Done, frozen=True, kw_only=True):
    """Newest first. If `more` follow, ask again `after` the last one."""

    history: tuple[RequestEnded, ...]
    more: bool


class HistoryQuestion(Question[HistoryAnswer], frozen=True, kw_only=True, tag="history"):
    """List how requests ended: at most `limit`, newest first, that follow `after`."""

    paths = ("/history",)
    limit: Limit = 100
    after: str = ""


class Telling(msgspec.Struct, frozen=True, kw_only=True):
    """A message about a request."""

    delivery: str
    recipient: str
    channel: str
    state: DeliveryState
    at: datetime


class RequestCard(RequestRow, frozen=True, kw_only=True):
    """All that is known of a request; `before` are the last answers to the same kind."""

    state: State
    proposal: Proposal
    verdicts: tuple[Verdict, ...]
    tier: Tier
    reversibility: Reversibility
    gives: str  # what an approval gives beside the action
    resolved: tuple[str, ...]  # where its paths lead, if elsewhere than they say
    answer: Answer | None
    valid_until: datetime | None
    denied_until: datetime | None  # the same action is denied without asking
    used: str
    claimant: str | None
    before: tuple[RequestEnded, ...]
    told: tuple[Telling, ...]
    not_by_web: str = ""  # why the control room cannot approve it, and what can
    not_granted: str = ""  # why it cannot be permitted for a while
    change: KeptChange | UnsetType = UNSET  # what the action changed, if that was committed


class RequestAnswer(Done, frozen=True, kw_only=True):
    request: RequestCard


class RequestQuestion(Question[RequestAnswer], frozen=True, kw_only=True, tag="request"):
    """Show everything about one request.

    Its id may be cut short as long as it names one.
    """

    paths = ("/requests/{id}",)
    id: str


Ids = Annotated[tuple[str, ...], Meta(min_length=1, max_length=1000)]
Words = Annotated[str, Meta(max_length=2000)]
RefusalCode = Literal[
    "not_found",
    "already_decided",
    "expired",
    "digest_mismatch",
    "elsewhere",
    "invalid",
    "not_grantable",
    "internal",
]


class ReviewResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of an answer to one request; of a second answer, whose was the first.

    `held` is the cause for which a guard holds back what was approved.
    """

    id: str
    ok: bool
    code: RefusalCode | None = None
    error: str | None = None
    decision: State | None = None
    by: str | None = None
    via: str | None = None
    at: datetime | None = None
    held: str | None = None
    grant: str | None = None


class ReviewDone(Done, frozen=True, kw_only=True):
    """One result for each id, in the order of the command."""

    results: tuple[ReviewResult, ...]


class ApproveCommand(Review[ReviewDone], frozen=True, kw_only=True, tag="approve"):
    """Approve requests: each action may run once.

    With `digest`, only if the action is still the one with this digest.
    """

    ids: Ids
    message: Words = ""
    digest: str = ""
    grant: RequestGrantTerms | None = None  # the same is permitted for a while
    via: Via = "cli"


class DenyCommand(Review[ReviewDone], frozen=True, kw_only=True, tag="deny"):
    """Deny requests; `reject` is the same command. The agent receives the reason."""

    ids: Ids
    reason: Words = ""
    once: bool = False  # the agent may ask for the same again; lifts a denial of before
    via: Via = "cli"


class RejectCommand(DenyCommand, frozen=True, kw_only=True, tag="reject"):
    """Deny requests: another name of `deny`."""


class DeferCommand(Review[ReviewDone], frozen=True, kw_only=True, tag="defer"):
    """Defer requests; they stay open, and their deadlines move along."""

    ids: Ids
    until: Annotated[datetime, Meta(tz=True)]
    via: Via = "cli"


class CancelCommand(Review[ReviewDone], frozen=True, kw_only=True, tag="cancel"):
    """Withdraw requests that nobody needs to answer any more."""

    ids: Ids
    via: Via = "cli"
