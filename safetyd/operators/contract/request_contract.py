"""Requests for approval: the queue, one request, the log of them, and the answers."""

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
    """Oldest first. If `more` follow, ask again `after` the last one.

    Sorted by urgency, the answer also says which part of the list it is.
    """

    requests: tuple[RequestRow, ...]
    pending: int  # how many there are
    channels: tuple[str, ...]  # on which people are told
    more: bool
    offset: int = 0  # requests before the first row
    place: int | None = None  # requests before the request `around`
    previous: str = ""  # the id of the request before the first row
    next: str = ""  # the id of the request after the last row
    # All pending requests, by agent.
    agents: dict[str, int] = msgspec.field(default_factory=dict)
    # All pending requests, by type.
    types: dict[str, int] = msgspec.field(default_factory=dict)


class PendingQuestion(Question[PendingAnswer], frozen=True, kw_only=True, tag="pending"):
    """List pending requests.

    At most `limit`, oldest first, that follow `after`. Without `grants`, rows do not say what
    may be granted with an approval. `sort` by urgency puts the most urgent and most dangerous
    requests first and keeps each kind together; the page begins at `offset`, or is the one with
    the request `around`, which may have been answered meanwhile.
    """

    paths = ("/requests",)
    protecting = True
    limit: Limit = 1000
    after: str = ""
    agent: str | None = None  # only of this agent
    grants: bool = True  # say what may be granted with an approval
    type: str | None = None  # only of this type
    sort: PendingOrder = "asked"
    offset: Annotated[int, Meta(ge=0)] = 0
    around: str = ""  # a request that the page of the list contains

    def __post_init__(self) -> None:
        if self.sort == "asked" and (self.type or self.offset or self.around):
            raise ValueError("`type`, `offset` and `around` are for the order by urgency")
        if self.sort == "urgency" and self.after:
            raise ValueError("`after` is for the order of age; use `offset`")


class HistoryAnswer(Done, frozen=True, kw_only=True):
    """Newest first. If `more` follow, ask again `after` the last one."""

    history: tuple[RequestEnded, ...]
    more: bool


class HistoryQuestion(Question[HistoryAnswer], frozen=True, kw_only=True, tag="history"):
    """List how requests ended, newest first.

    At most `limit`, that follow `after`.
    """

    paths = ("/history",)
    limit: Limit = 100
    after: str = ""


class RequestAnswer(Done, frozen=True, kw_only=True):
    request: RequestDetails


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
    """Deny requests.

    `reject` is the same command. The agent receives the reason.
    """

    ids: Ids
    reason: Words = ""
    once: bool = False  # the agent may ask for the same again; lifts a denial of before
    via: Via = "cli"


class RejectCommand(DenyCommand, frozen=True, kw_only=True, tag="reject"):
    """Deny requests: another name of `deny`."""


class DeferCommand(Review[ReviewDone], frozen=True, kw_only=True, tag="defer"):
    """Defer requests; they stay open.

    Their deadlines move along.
    """

    ids: Ids
    until: Annotated[datetime, Meta(tz=True)]
    via: Via = "cli"


class CancelCommand(Review[ReviewDone], frozen=True, kw_only=True, tag="cancel"):
    """Withdraw requests that nobody needs to answer any more."""

    ids: Ids
    via: Via = "cli"
