"""The messages of asking people: permissions, claims, answers, grants, and what waits."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from docs.replies import Done
from docs.rows import (
    GrantRow,
    OwnRequest,
    RequestCard,
    RequestEnded,
    RequestRow,
    ReviewResult,
    SuggestionRow,
)
from safetyd.agents.claims import Claim
from safetyd.agents.permissions import PermissionAsk
from safetyd.core.messages.verdict import Cause
from safetyd.operators.budget_commands import RaiseCommand
from safetyd.operators.grant_commands import GrantCommand, RevokeCommand
from safetyd.operators.reviews import ApproveCommand, CancelCommand, DeferCommand, DenyCommand
from safetyd.operators.views.request_view import HistoryQuestion, PendingQuestion, RequestQuestion


class ReviewApprove(ApproveCommand, kw_only=True, tag_field="command", tag="approve"):
    """Let what was asked happen, once. With `digest`, only if it is still that."""


class ReviewDeny(DenyCommand, kw_only=True, tag_field="command", tag="deny"):
    """Say no; `reject` is the same command. The agent is told the reason."""


class ReviewDefer(DeferCommand, kw_only=True, tag_field="command", tag="defer"):
    """Put requests off; they stay open, and their deadlines move along."""


class ReviewCancel(CancelCommand, kw_only=True, tag_field="command", tag="cancel"):
    """Withdraw requests that nobody needs to answer any more."""


class ReviewDone(Done):
    """One result for each id, in the order of the command."""

    results: tuple[ReviewResult, ...]


class QueryPending(PendingQuestion, kw_only=True, tag_field="command", tag="pending"):
    """Ask what waits for a person: at most `limit` requests, oldest first, that follow `after`."""


class PendingAnswer(Done):
    """Oldest first. If `more` follow, ask again `after` the last one."""

    requests: tuple[RequestRow, ...]
    pending: int  # how many there are
    channels: tuple[str, ...]  # on which people are told
    more: bool


class QueryRequest(RequestQuestion, kw_only=True, tag_field="command", tag="request"):
    """Ask all that is known of one request; its id may be cut short as far as it names one."""


class RequestAnswer(Done):
    request: RequestCard


class QueryHistory(HistoryQuestion, kw_only=True, tag_field="command", tag="history"):
    """Ask how requests ended: at most `limit`, newest first, that follow `after`."""


class HistoryAnswer(Done):
    """Newest first. If `more` follow, ask again `after` the last one."""

    history: tuple[RequestEnded, ...]
    more: bool


class PermissionResult(Struct, omit_defaults=True):
    """Approved, refused with a reason, or queued; to `open`, the agent's own requests."""

    approved: bool | None = None
    message: str | None = None
    reason: str | None = None
    cause: Cause | None = None
    timeout_minutes: float | None = None
    queued: bool | None = None
    request_id: str | None = None
    requests: tuple[OwnRequest, ...] | None = None


class ClaimResult(Struct):
    """Whether the action may be done now, by this claimant and nobody else."""

    granted: bool
    cause: Literal["already_claimed", "not_approved", "expired", "digest_mismatch"] | Cause
    reason: str


class ControlGrantAdd(GrantCommand, kw_only=True, tag_field="command", tag="grant_add"):
    """Permit a kind of action for a while, without a request; it needs a reason."""


class GrantMade(Done):
    id: str
    until: datetime


class ControlGrantRevoke(RevokeCommand, kw_only=True, tag_field="command", tag="grant_revoke"):
    """End a grant before its time."""


class GrantOver(Done):
    """`left` uses had not been made of it."""

    id: str
    left: int


class ControlBudgetRaise(RaiseCommand, kw_only=True, tag_field="command", tag="budget_raise"):
    """Permit more money until 00:00Z; it needs a reason. `name` is the agent's or the model's."""


class BudgetLifted(Done):
    """What is permitted now, how much of it is used or set aside, and for how long."""

    limit: float
    used: float
    until: datetime


class QueryGrants(Struct, tag_field="command", tag="grants"):
    """Ask which grants are in force."""


class GrantsAnswer(Done):
    """Oldest first; `left_out` had no room."""

    grants: tuple[GrantRow, ...]
    left_out: int


class QuerySuggestions(Struct, tag_field="command", tag="suggestions"):
    """Ask which rules people's answers add up to; nothing is changed by itself."""


class SuggestionsAnswer(Done):
    suggestions: tuple[SuggestionRow, ...]
    left_out: int


ASKING: Final[Mapping[str, type[Struct]]] = {
    "permission_ask": PermissionAsk,
    "permission_result": PermissionResult,
    "claim": Claim,
    "claim_result": ClaimResult,
    "review_approve": ReviewApprove,
    "review_approve_reply": ReviewDone,
    "review_deny": ReviewDeny,
    "review_deny_reply": ReviewDone,
    "review_defer": ReviewDefer,
    "review_defer_reply": ReviewDone,
    "review_cancel": ReviewCancel,
    "review_cancel_reply": ReviewDone,
    "query_pending": QueryPending,
    "query_pending_reply": PendingAnswer,
    "query_request": QueryRequest,
    "query_request_reply": RequestAnswer,
    "query_history": QueryHistory,
    "query_history_reply": HistoryAnswer,
    "control_grant_add": ControlGrantAdd,
    "control_grant_add_reply": GrantMade,
    "control_grant_revoke": ControlGrantRevoke,
    "control_grant_revoke_reply": GrantOver,
    "control_budget_raise": ControlBudgetRaise,
    "control_budget_raise_reply": BudgetLifted,
    "query_grants": QueryGrants,
    "query_grants_reply": GrantsAnswer,
    "query_suggestions": QuerySuggestions,
    "query_suggestions_reply": SuggestionsAnswer,
}
