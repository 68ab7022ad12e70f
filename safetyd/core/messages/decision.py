"""What safetyd answers."""

from datetime import datetime
from typing import Literal

import msgspec

from safetyd.core.messages.proposal import Reversibility, Risk, Tier
from safetyd.core.messages.verdict import Cause, Severity

Status = Literal["final", "pending"]


class Opinion(msgspec.Struct, frozen=True, gc=False):
    """A guard's verdict as an agent sees it."""

    guard: str
    decision: Severity
    rule: str
    reason: str


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer to one proposal. Take it only if `agent`, `id` and `digest` are your own."""

    id: str
    agent: str
    decision: Severity
    status: Status = "final"
    cause: Cause = "policy"
    reason: str = ""
    triggered_rules: tuple[str, ...] = ()
    confidence: float = 1.0
    verdicts: tuple[Opinion, ...] = ()
    tier: Tier | None = None
    risk: Risk | None = None
    reversibility: Reversibility | None = None
    request_id: str | None = None
    retry_after_s: float | None = None
    limit_id: str | None = None
    agent_message: str = ""
    digest: str = ""
    claim_required: bool = False
    expires_at: datetime | None = None
    mode: str = ""
    policy: str = ""
    seq: int | None = None  # None: not journalled one by one (intake, malformed, unavailable)
    at: datetime | None = None

    @property
    def allowed(self) -> bool:
        return self.decision is Severity.ALLOW

    def __bool__(self) -> bool:
        raise TypeError("a decision is neither true nor false: look at its `allowed`")
