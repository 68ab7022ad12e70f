"""What a guard may say of a proposal, and which of many opinions wins."""

import enum
from collections.abc import Iterable
from typing import Literal

import msgspec

Cause = Literal[
    "policy",
    "prohibited",
    "rate_limit",
    "cooldown",
    "iteration_limit",
    "budget",
    "breaker_open",
    "loop",
    "anomaly",
    "safe_mode",
    "stopped",
    "paused",
    "disabled",
    "mode_violation",
    "low_confidence",
    "low_score",
    "human_approved",
    "human_denied",
    "expired_no_response",
    "undeliverable",
    "cancelled",
    "superseded",
    "conflict",
    "malformed",
    "guard_error",
    "unavailable",
]


class Severity(enum.StrEnum):
    """How much a verdict restricts, least first."""

    ALLOW = "allow"
    ASK = "require_confirmation"
    BLOCK = "block"

    @property
    def rank(self) -> int:
        return _RANK[self]


_RANK = {severity: rank for rank, severity in enumerate(Severity)}


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One guard's opinion of one proposal."""

    guard: str
    decision: Severity
    rule: str  # stable, dotted, for machines: "gate.blocklist:rm_rf"
    reason: str  # one sentence, for a person
    cause: Cause = "policy"
    also: tuple[str, ...] = ()  # further rules of the same guard that matched
    retry_after_s: float | None = None
    limit_id: str | None = None
    masks_text: bool = False  # the proposal's text is a secret and must not be written down


ALLOWED = Verdict("", Severity.ALLOW, "", "All safety checks passed")


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the most restrictive verdict; of equals, the one given first."""
    return max(verdicts, key=lambda verdict: verdict.decision.rank, default=ALLOWED)
