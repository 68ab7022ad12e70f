"""The list of decisions, and the explanation of one."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from safetyd.core.events.event import Level
from safetyd.core.messages.proposal import Proposal, Reversibility, Risk, Tier
from safetyd.core.messages.verdict import Cause, CommandPart, Severity
from safetyd.operators.contract.question import Question
from safetyd.operators.replies import Done

What = Literal["decisions", "events", "all"]


class DecisionRow(msgspec.Struct, frozen=True, kw_only=True, tag_field="row", tag="decision"):
    """One decision. `text` is the action itself, or the agent's description of it.

    `rule`, `reason` and `cause` come from the strictest verdict; `rule` is empty if no guard
    restricted the action.
    """

    seq: int
    at: datetime
    id: str
    agent: str
    keyless: bool
    type: str
    text: str
    cut: bool  # True if the text is longer.
    path: str | UnsetType = UNSET  # The first path of the action.
    paths: int | UnsetType = UNSET  # How many paths the action names.
    project: str | None
    session: str | None
    risk: Risk
    decision: Severity
    rule: str
    reason: str
    cause: Cause | UnsetType = UNSET
    request_id: str | UnsetType = UNSET  # The request that the decision opened, joined or used.
    first: bool  # False for a dry run or a repeated id.
    dry_run: bool | UnsetType = UNSET  # True for a dry run: nothing was counted, nobody was asked.

    @property
    def place(self) -> str:
        """The first path, and how many more there are."""
        more = (self.paths or 1) - 1
        return f"{self.path} and {more} more" if more > 0 else self.path or ""


class EventRow(msgspec.Struct, frozen=True, kw_only=True, tag_field="row", tag="event"):
    """An event that operators receive."""

    seq: int
    at: datetime
    type: str
    agent: str | None
    severity: Level
    message: str
    by: str | UnsetType = UNSET
    rule: str | UnsetType = UNSET
    request_id: str | UnsetType = UNSET
    count: int | UnsetType = UNSET  # How often it happened.
    project: str | UnsetType = UNSET
    commit: str | UnsetType = UNSET  # The target of an offered or finished rollback.


Row = DecisionRow | EventRow


class DecisionsAnswer(Done, frozen=True, kw_only=True):
    """Newest first. If `more` is true, ask again with this `before`.

    `newest` is the number of the last written event; use it as `after` to get later rows.
    `left_out` is how many rows did not fit, if `count` was set and no search was needed.
    """

    rows: tuple[Row, ...]
    more: bool
    before: int | None
    newest: int
    left_out: int | UnsetType = UNSET


class DecisionsQuestion(Question[DecisionsAnswer], frozen=True, kw_only=True, tag="decisions"):
    """List decisions, newest first.

    `what` selects decisions, other `events`, or `all`. `rule` is a rule or the start of its name.
    `text` is part of the agent's text. `since`, `before` and `after` limit the list. With `count`,
    the answer says how many more rows there are.
    """

    paths = ("/decisions",)
    what: What = "decisions"
    agent: str | None = None  # Only decisions for this agent.
    verdict: Severity | None = None  # Only this verdict.
    rule: str | None = None
    text: str | None = None
    since: Annotated[datetime, Meta(tz=True)] | None = None
    before: Annotated[int, Meta(ge=1)] | None = None
    after: Annotated[int, Meta(ge=0)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    count: bool = False


StepKind = Literal[
    "proposed",
    "decided",
    "asked",
    "told",
    "not_told",
    "deferred",
    "lifted",
    "answered",
    "held_back",
    "cancelled",
    "expired",
    "superseded",
    "lapsed",
    "claimed",
    "used",
    "granted",
    "withheld",
    "outcome",
    "committed_before",
    "committed",
    "not_committed",
]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step in the life of a proposal. `by` is an operator, agent or recipient, `via` a channel.

    `ref` is the request, grant, proposal or commit involved. For a commit, `via` is the project.
    Unknown values are empty.
    """

    seq: int
    at: datetime
    what: StepKind
    by: str = ""
    via: str = ""
    ref: str = ""
    text: str = ""


class AuditPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The position of an audit line, its hash, and the hash of the line before it."""

    file: str
    line: int
    hash: str
    previous: str


class LikeDecision(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    at: datetime
    id: str
    agent: str
    decision: Severity


class LikeDecisions(msgspec.Struct, frozen=True, kw_only=True):
    """How similar proposals were decided: the same action, or a command of the same shape.

    `since` is the oldest event that was searched, at most a week ago. `whole` is false if the
    search ran out of time before that. `last` are the newest decisions, for any agent.
    """

    since: datetime
    whole: bool
    counts: dict[Severity, int]
    last: tuple[LikeDecision, ...]


class GuardExplained(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of a guard that restricted the action, or the current state of another (`now`).

    `remedy` completes "It would be allowed ..." with a change that would have satisfied this guard.
    """

    guard: str
    restricted: bool
    decision: Severity | UnsetType = UNSET
    rule: str | UnsetType = UNSET
    also: tuple[str, ...] | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    remedy: str | UnsetType = UNSET
    # The parts of a command that are not allowed.
    parts: tuple[CommandPart, ...] | UnsetType = UNSET
    now: str | UnsetType = UNSET


class DecisionExplained(msgspec.Struct, frozen=True, kw_only=True):
    """`remedy` is the smallest change that would have changed the decision to `then`.

    It completes "It would be allowed ..." and is empty if unknown. `guards` are in the order of the
    chain.
    """

    seq: int
    at: datetime
    agent: str
    type: str
    tier: Tier
    risk: Risk
    reversibility: Reversibility
    decision: Severity
    decided_by: str | None  # The guard whose reason is given.
    reason: str
    remedy: str
    then: Severity | None
    first: bool
    digest: str
    guards: tuple[GuardExplained, ...]
    proposal: Proposal
    audit: AuditPlace | UnsetType = UNSET  # Its position in the audit files.


class OutcomeExplained(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    at: datetime
    agent: str
    ok: bool
    error: str
    host_denied: str = ""  # why the agent's host refused the action itself


class WithheldExplained(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    at: datetime
    why: Literal["stopped", "late"]


class ExplainAnswer(Done, frozen=True, kw_only=True):
    """The decisions about a proposal, its `steps` in order, and similar decisions (`like`)."""

    id: str
    decisions: tuple[DecisionExplained, ...]
    outcomes: tuple[OutcomeExplained, ...]
    withheld: tuple[WithheldExplained, ...]
    steps: tuple[Step, ...] = ()
    like: LikeDecisions | UnsetType = UNSET


class ExplainQuestion(Question[ExplainAnswer], frozen=True, tag="explain"):
    """Explain a decision: why it was made, and what happened afterwards.

    Name the proposal by its `id`, by the id of its request, or as the `last` one of an agent.
    """

    paths = (
        "/decisions/{id}",
        "/agents/{last}/explain",
    )
    id: str = ""
    last: str = ""

    def __post_init__(self) -> None:
        if bool(self.id) == bool(self.last):
            raise ValueError("give either `id` (a proposal or request) or `last` (an agent)")

    def __str__(self) -> str:
        return f"with id {self.id!r}" if self.id else f"about agent {self.last!r}"
