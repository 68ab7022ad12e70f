"""The messages of asking people: permissions, claims, answers, grants, and what waits."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from safetyd.agents.claims import Claim, ClaimResult
from safetyd.agents.permissions import PermissionAsk, PermissionResult
from safetyd.operators.budget_commands import BudgetLifted, RaiseCommand
from safetyd.operators.grant_commands import GrantCommand, GrantMade, GrantOver, RevokeCommand
from safetyd.operators.reviews import (
    ApproveCommand,
    CancelCommand,
    DeferCommand,
    DenyCommand,
    ReviewDone,
)
from safetyd.operators.views.grant_view import GrantsAnswer, SuggestionsAnswer
from safetyd.operators.views.request_view import (
    HistoryAnswer,
    HistoryQuestion,
    PendingAnswer,
    PendingQuestion,
    RequestAnswer,
    RequestQuestion,
)


class ReviewApprove(ApproveCommand, kw_only=True, tag_field="command", tag="approve"):
    """Let what was asked happen, once. With `digest`, only if it is still that."""


class ReviewDeny(DenyCommand, kw_only=True, tag_field="command", tag="deny"):
    """Say no; `reject` is the same command. The agent is told the reason."""


class ReviewDefer(DeferCommand, kw_only=True, tag_field="command", tag="defer"):
    """Put requests off; they stay open, and their deadlines move along."""


class ReviewCancel(CancelCommand, kw_only=True, tag_field="command", tag="cancel"):
    """Withdraw requests that nobody needs to answer any more."""


class QueryPending(PendingQuestion, kw_only=True, tag_field="command", tag="pending"):
    """Ask what waits for a person: at most `limit` requests, oldest first, that follow `after`."""


class QueryRequest(RequestQuestion, kw_only=True, tag_field="command", tag="request"):
    """Ask all that is known of one request; its id may be cut short as far as it names one."""


class QueryHistory(HistoryQuestion, kw_only=True, tag_field="command", tag="history"):
    """Ask how requests ended: at most `limit`, newest first, that follow `after`."""


class ControlGrantAdd(GrantCommand, kw_only=True, tag_field="command", tag="grant_add"):
    """Permit a kind of action for a while, without a request; it needs a reason."""


class ControlGrantRevoke(RevokeCommand, kw_only=True, tag_field="command", tag="grant_revoke"):
    """End a grant before its time."""


class ControlBudgetRaise(RaiseCommand, kw_only=True, tag_field="command", tag="budget_raise"):
    """Permit more money until 00:00Z; it needs a reason. `name` is the agent's or the model's."""


class QueryGrants(Struct, tag_field="command", tag="grants"):
    """Ask which grants are in force."""


class QuerySuggestions(Struct, tag_field="command", tag="suggestions"):
    """Ask which rules people's answers add up to; nothing is changed by itself."""


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
