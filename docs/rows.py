"""The rows of tables that questions are answered with."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from safetyd.core.approvals.request import Answer
from safetyd.core.approvals.request import State as RequestState
from safetyd.core.events.notification_events import DeliveryState
from safetyd.core.guards.budget.limits import Scope
from safetyd.core.guards.kernel import State
from safetyd.core.messages.proposal import Proposal, Reversibility, Risk, Tier, Urgency
from safetyd.core.messages.verdict import Severity, Verdict

RefusalCode = Literal[
    "not_found",
    "already_decided",
    "expired",
    "digest_mismatch",
    "elsewhere",
    "invalid",
    "not_grantable",
]
# Its kernel's, if it is neither stopped nor paused.
AgentState = Literal[
    "stopped", "paused", "ready", "planning", "executing", "evaluating", "safe_mode"
]
PauseSource = Literal["operator", "anomaly", "budget"]


class Budget(Struct):
    """US dollars; a limit of null is none. `raised` is what people have added to it."""

    scope: Scope
    id: str
    agent: str | None
    spent: float
    reserved: float
    limit: float | None
    raised: float


class Spending(Struct):
    agent: str
    session: str
    model: str
    spent: float


class Breaker(Struct):
    """For one agent, else for all with keys, or for all without if `keyless`."""

    breaker: str
    state: Literal["closed", "open", "half_open"]
    agent: str | None
    reason: str
    calls: int
    failures: int
    probes_out: int
    keyless: bool
    open_s: float | None
    wait_s: float | None  # until one that is open is tried again


class Finding(Struct):
    at: datetime
    rule: str
    severity: Literal["low", "medium", "high", "critical"]
    message: str
    agent: str | None
    breaker: str | None
    seen: bool  # a person gave a command after it


class Pausing(Struct):
    """One of the reasons why an agent stands still."""

    agent: str
    source: PauseSource
    by: str
    reason: str
    since: datetime


class AgentRow(Struct):
    """What an agent did, what holds it back, and how near it is to its limits."""

    agent: str
    key: bool
    heard_s: float
    allowed: int
    asked: int
    blocked: int
    failed: int
    unreported: int  # open actions that are only counted
    stopped: bool
    pauses: tuple[PauseSource, ...]
    state: AgentState
    kernel: State
    consecutive_errors: int
    max_consecutive_errors: int
    tokens: float  # of `burst`, that its rate has left
    burst: float
    iterations: int  # of the live session that has had most
    max_iterations: int
    budgets: tuple[Budget, ...]  # the fullest chain and session, and its part of the day
    anomalies: dict[str, int]  # that hold now, and how often each was seen to
    near: tuple[Literal["errors", "tokens", "iterations"] | Scope, ...]
    reached: tuple[Literal["errors", "tokens", "iterations"] | Scope, ...]  # of these


class AgentSeen(AgentRow):
    open_actions: tuple[str, ...]


class GuardExplained(Struct, omit_defaults=True):
    """What a guard thought, if it restricted; else `now`, where it stands today if that is known.

    `remedy` completes "allowed ...": what would have let the proposal pass this guard.
    """

    guard: str
    restricted: bool
    decision: Severity | None = None
    rule: str = ""
    also: tuple[str, ...] = ()
    reason: str = ""
    remedy: str = ""
    now: str = ""


class TypeKnown(Struct):
    type: str
    tier: Tier
    risk: Risk
    reversibility: Reversibility
    human: bool


class TypeUnknown(Struct):
    type: str
    count: int
    toml: str  # what would make it known


class Waiting(Struct):
    """How many requests wait for a person, and for how long the oldest has."""

    pending: int
    oldest_s: float
    channels: tuple[str, ...]  # on which people are told
    down: tuple[str, ...]  # of these, which take nothing now
    unnotified: int  # requests of which somebody should know and nobody does


class RequestRow(Struct):
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
    rule: str
    reason: str
    asked_at: datetime
    deadline: datetime | None
    left_s: float | None
    until: datetime | None  # put off until then
    repeats: int
    digest: str
    permission: bool  # asked beforehand: it is for a proposal that is yet to come
    undeliverable: bool  # every channel refused to tell of it


class Telling(Struct):
    """A message about a request."""

    delivery: str
    recipient: str
    channel: str
    state: DeliveryState
    at: datetime


class RequestEnded(Struct):
    """How a request ended; an approval may still be unused."""

    request_id: str
    agent: str
    action: str
    text: str
    decision: RequestState
    decided_at: datetime | None
    decided_via: str | None
    decided_by: str | None
    words: str
    response_time_seconds: float | None
    used: str  # the id of the proposal that used an approval, or nothing


class RequestCard(RequestRow):
    """All that is known of a request; `before` are the last answers to the same kind."""

    state: RequestState
    proposal: Proposal
    verdicts: tuple[Verdict, ...]
    tier: Tier
    reversibility: Reversibility
    gives: str  # what an approval gives beside the action
    resolved: tuple[str, ...]  # where its paths lead, if elsewhere than they say
    answer: Answer | None
    valid_until: datetime | None
    used: str
    claimant: str | None
    before: tuple[RequestEnded, ...]
    told: tuple[Telling, ...]


class ReviewResult(Struct, omit_defaults=True):
    """What came of an answer to one request; of a second answer, whose was the first.

    `held` is the cause for which a guard holds back what was approved.
    """

    id: str
    ok: bool
    decision: RequestState | None = None
    held: str | None = None
    grant: str | None = None
    by: str | None = None
    via: str | None = None
    at: datetime | None = None
    code: RefusalCode | None = None
    error: str | None = None


class OwnRequest(Struct, omit_defaults=True):
    """One of an agent's own requests."""

    request_id: str
    action: str
    status: RequestState
    expires_at: datetime | None
    message: str = ""
    reason: str = ""


class GrantRow(Struct):
    """A grant in force; amounts are US dollars."""

    id: str
    agent: str
    type: str | None
    project: str | None
    rules: tuple[str, ...]
    text: str | None  # a pattern
    seen: str | None  # the beginning of what was approved: exactly that is permitted
    wide: bool  # whatever the agent says passes
    paths: tuple[str, ...]  # patterns
    uses: int
    left: int
    until: datetime
    max_usd: float | None
    spent_usd: float
    reason: str
    by: str
    via: str
    at: datetime
    request_id: str | None


class SuggestionRow(Struct):
    """A rule that people might want, what speaks for it, and how to write it."""

    then: str
    agent: str
    type: str
    project: str | None
    approved: int
    denied: int
    first_at: datetime
    last_at: datetime
    reason: str
    toml: str
