"""The answer to a proposal."""

from datetime import datetime
from typing import Literal

import msgspec

from safetyd.core.messages.proposal import Reversibility, Risk, Tier
from safetyd.core.messages.verdict import Cause, Severity

Status = Literal["final", "pending"]


class Opinion(msgspec.Struct, frozen=True, gc=False):
    """A guard's verdict as an agent sees it."""

    guard: str  # The guard.
    decision: Severity  # Its verdict.
    rule: str  # The rule that matched.
    reason: str  # Why, in one sentence for a person.


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer to one proposal. Take it only if `agent`, `id` and `digest` are your own."""

    id: str  # The id of the proposal.
    agent: str  # The agent that proposed it.
    decision: Severity  # The verdict; act only on allow.
    status: Status = "final"  # pending: a person has been asked, and the final decision follows.
    cause: Cause = "policy"  # The kind of reason, for programs.
    reason: str = ""  # Why, for a person.
    triggered_rules: tuple[str, ...] = ()  # Every rule that matched.
    confidence: float = 1.0  # How sure safetyd is of the verdict, from 0 to 1.
    verdicts: tuple[Opinion, ...] = ()  # The guards that restricted the action.
    tier: Tier | None = None  # How the type of action is classified.
    risk: Risk | None = None  # How risky the action is.
    reversibility: Reversibility | None = None  # Whether the action can be undone.
    request_id: str | None = None  # The request that a person answers, if one was asked.
    retry_after_s: float | None = None  # After how many seconds it helps to propose again.
    limit_id: str | None = None  # The limit that was reached.
    agent_message: str = ""  # What to tell the model that proposed it.
    digest: str = ""  # The SHA-256 digest of the content of the proposal.
    claim_required: bool = False  # True: claim the action before you begin it.
    expires_at: datetime | None = None  # When an allow or a pending request ends.
    mode: str = ""  # The mode of the daemon, such as production.
    policy: str = ""  # The digest of the rules in force.
    # The number of its line in the journal; null for refusals that are only counted.
    seq: int | None = None
    at: datetime | None = None  # When it was decided.

    @property
    def allowed(self) -> bool:
        return self.decision is Severity.ALLOW

    def __bool__(self) -> bool:
        raise TypeError("a decision is neither true nor false: look at its `allowed`")
