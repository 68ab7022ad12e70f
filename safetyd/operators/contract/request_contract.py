"""Approval requests: the pending ones, one in detail, the request log, and the answers."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from safetyd.cards.request_details import RequestDetails, RequestEnded, RequestRow
from safetyd.core.approvals.request import State
from safetyd.operators.contract.grant_contract import RequestGrantTerms
from safetyd.operators.contract.hold_contract import Via
from safetyd.operators.contract.question import Question, Review
from safetyd.operators.replies import Done

Limit = Annotated[int, Meta(ge=1, le=1000)]


PendingOrder = Literal["asked", "urgency"]


class PendingAnswer(Done, frozen=True, kw_only=True):
    """Requests, oldest first. If `more` is true, ask again with the last one as `after`.

    When sorted by urgency, the answer also contains the position of the page.
    """

    requests: tuple[RequestRow, ...]
    pending: int  # How many requests are pending.
    channels: tuple[str, ...]  # Channels that operators are notified on.
    more: bool
    offset: int = 0  # How many requests come before the first row.
    place: int | None = None  # How many requests come before the request `around`.
    previous: str = ""  # The id of the request before the first row.
    next: str = ""  # The id of the request after the last row.
    # Pending requests by agent.
    agents: dict[str, int] = msgspec.field(default_factory=dict)
    # Pending requests by type.
    types: dict[str, int] = msgspec.field(default_factory=dict)


class PendingQuestion(Question[PendingAnswer], frozen=True, kw_only=True, tag="pending"):
    """List pending requests.

    The answer has at most `limit` rows, oldest first, starting after `after`. Without `grants`,
    rows do not include grant offers. When sorted by urgency, the most urgent and risky requests
    come first and similar ones stay together. In this order, the page starts at `offset`, or
    contains the request `around`, even if that request has been answered since.
    """

    paths = ("/requests",)
    protecting = True
    limit: Limit = 1000
    after: str = ""
    agent: str | None = None  # Only requests of this agent.
    grants: bool = True  # True: include the grant that could be made with an approval.
    type: str | None = None  # Only requests of this type.
    sort: PendingOrder = "asked"
    offset: Annotated[int, Meta(ge=0)] = 0
    around: str = ""  # Return the page that contains this request.

    def __post_init__(self) -> None:
        if self.sort == "asked" and (self.type or self.offset or self.around):
            raise ValueError("`type`, `offset` and `around` work only when sorted by urgency")
        if self.sort == "urgency" and self.after:
            raise ValueError("`after` works only when sorted by age; use `offset`")


class HistoryAnswer(Done, frozen=True, kw_only=True):
    """Requests, newest first. If `more` is true, ask again with the last one as `after`."""

    history: tuple[RequestEnded, ...]
    more: bool


class HistoryQuestion(Question[HistoryAnswer], frozen=True, kw_only=True, tag="history"):
    """List finished requests, newest first.

    The answer has at most `limit` requests, starting after the request `after`.
    """

    paths = ("/history",)
    limit: Limit = 100
    after: str = ""


class RequestAnswer(Done, frozen=True, kw_only=True):
    request: RequestDetails


class RequestQuestion(Question[RequestAnswer], frozen=True, kw_only=True, tag="request"):
    """Show all details of one request.

    The id may be shortened as long as it is unique.
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
    """The result of an answer to one request, with the earlier answer if there was one.

    `held` is the cause if a guard still blocks the approved action.
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

    With `digest`, approve only if the action still has this digest.
    """

    ids: Ids
    message: Words = ""
    digest: str = ""
    grant: RequestGrantTerms | None = None  # Also allow the same kind of action for a while.
    via: Via = "cli"


class DenyCommand(Review[ReviewDone], frozen=True, kw_only=True, tag="deny"):
    """Deny requests.

    `reject` is the same command. The agent receives the reason.
    """

    ids: Ids
    reason: Words = ""
    # True: the agent may propose the same action again. This also lifts an earlier denial.
    once: bool = False
    via: Via = "cli"


class RejectCommand(DenyCommand, frozen=True, kw_only=True, tag="reject"):
    """Deny requests (alias of `deny`)."""


class DeferCommand(Review[ReviewDone], frozen=True, kw_only=True, tag="defer"):
    """Defer requests; they stay pending.

    Their deadlines are extended by the same time.
    """

    ids: Ids
    until: Annotated[datetime, Meta(tz=True)]
    via: Via = "cli"


class CancelCommand(Review[ReviewDone], frozen=True, kw_only=True, tag="cancel"):
    """Withdraw requests that no longer need an answer."""

    ids: Ids
    via: Via = "cli"
