"""The answer to a proposal."""

from datetime import datetime
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from safetyd.core.messages.proposal import Reversibility, Risk, Tier
from safetyd.core.messages.verdict import Cause, Severity

Status = Literal["final", "pending"]


class Opinion(msgspec.Struct, frozen=True, gc=False):
    """A guard's verdict as an agent sees it."""

    guard: str  # The name of the guard.
    decision: Severity  # Its verdict.
    rule: str  # The rule that matched.
    reason: str  # The reason, in one sentence.


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer to one proposal. Use it only if `agent`, `id` and `digest` are yours."""

    id: str  # The id of the proposal.
    agent: str  # The agent that proposed it.
    decision: Severity  # The verdict. Act only if it is allow.
    # pending: an operator has been asked for approval, and the final decision follows.
    status: Status = "final"
    cause: Cause = "policy"  # The reason as a code, for programs.
    reason: str = ""  # The reason, as text.
    triggered_rules: tuple[str, ...] = ()  # Every rule that matched.
    confidence: float = 1.0  # How sure safetyd is of the verdict, from 0 to 1.
    verdicts: tuple[Opinion, ...] = ()  # The verdicts that restrict the action.
    tier: Tier | None = None  # The tier of the action type.
    risk: Risk | None = None  # How risky the action is.
    reversibility: Reversibility | None = None  # Whether the action can be undone.
    request_id: str | None = None  # The id of the approval request, if there is one.
    retry_after_s: float | None = None  # Seconds to wait before you propose again.
    limit_id: str | None = None  # The id of the limit that was reached.
    agent_message: str = ""  # A message for the model that proposed the action.
    digest: str = ""  # The SHA-256 digest of the content of the proposal.
    claim_required: bool = False  # True: claim the action before you start it.
    expires_at: datetime | None = None  # When the permission or the pending request expires.
    # When somebody who may answer the request can be notified, if nobody can be now. If this is not
    # before `expires_at`, it is useless to wait.
    reachable_from: datetime | UnsetType = UNSET
    mode: str = ""  # The mode of the daemon, such as production.
    policy: str = ""  # The digest of the rules in force.
    # The number of the decision in the journal. Null for refusals that are only counted.
    seq: int | None = None
    at: datetime | None = None  # When safetyd decided.
    # True: safetyd cannot answer now, but may soon. Send the message again with the same id.
    retry: bool | UnsetType = UNSET

    @property
    def allowed(self) -> bool:
        return self.decision is Severity.ALLOW

    def answerable_within(self, wait_s: float) -> bool:
        """Return whether somebody who may answer can be notified within seconds of the decision."""
        if not self.reachable_from or self.at is None:
            return True
        return (self.reachable_from - self.at).total_seconds() < wait_s

    def __bool__(self) -> bool:
        raise TypeError("a Decision has no truth value: use its `allowed` property")
