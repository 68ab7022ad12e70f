"""Decisions: the list of them, and the explanation of one."""

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
    """One decision. `text` is what would be done, exactly or as the agent describes it.

    `rule`, `reason` and `cause` are those of the strictest verdict; `rule` is empty if none
    restricted it.
    """

    seq: int
    at: datetime
    id: str
    agent: str
    keyless: bool
    type: str
    text: str
    cut: bool  # the text is longer
    path: str | UnsetType = UNSET  # the first that it names
    paths: int | UnsetType = UNSET  # how many it names
    project: str | None
    session: str | None
    risk: Risk
    decision: Severity
    rule: str
    reason: str
    cause: Cause | UnsetType = UNSET
    request_id: str | UnsetType = UNSET  # that it opened, joined or used up
    first: bool  # False: a dry run or the repeat of an id, which takes nothing

    @property
    def place(self) -> str:
        """The first path that it names, and how many more there are."""
        more = (self.paths or 1) - 1
        return f"{self.path} and {more} more" if more > 0 else self.path or ""


class EventRow(msgspec.Struct, frozen=True, kw_only=True, tag_field="row", tag="event"):
    """What people were told of."""

    seq: int
    at: datetime
    type: str
    agent: str | None
    severity: Level
    message: str
    by: str | UnsetType = UNSET
    rule: str | UnsetType = UNSET
    request_id: str | UnsetType = UNSET
    count: int | UnsetType = UNSET  # how often it happened
    project: str | UnsetType = UNSET
    commit: str | UnsetType = UNSET  # to go back to, or gone back to


Row = DecisionRow | EventRow


class DecisionsAnswer(Done, frozen=True, kw_only=True):
    """Newest first. If there are `more`, or may be, ask again with this `before`.

    `newest` is the number of the last event that was written down: later rows come `after` it.
    `left_out` rows had no room, if somebody wants to know and it needs no search.
    """

    rows: tuple[Row, ...]
    more: bool
    before: int | None
    newest: int
    left_out: int | UnsetType = UNSET


class DecisionsQuestion(Question[DecisionsAnswer], frozen=True, kw_only=True, tag="decisions"):
    """List decisions, newest first.

    `what` asks for other events (`events`), or for both (`all`). `rule` is a rule or how its
    name begins; `text` is looked for in what an agent said. Rows older than `since` are left
    out, and those of events up to `after` or from `before` on. `count` asks how many rows
    besides there was no room for.
    """

    paths = ("/decisions",)
    what: What = "decisions"
    agent: str | None = None  # only of this agent
    verdict: Severity | None = None  # only of this decision
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
    """One step of a proposal's way. `by` is a person, an agent or a recipient, `via` a channel.

    `ref` is the request, grant, proposal or commit that it is about besides. Of a commit `via` is
    the project. What is not known is empty.
    """

    seq: int
    at: datetime
    what: StepKind
    by: str = ""
    via: str = ""
    ref: str = ""
    text: str = ""


class AuditPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a line stands, its hash, and that of the line before, which it goes on from."""

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
    """How others like it were decided: the same action, or a command of its shape.

    `since` is the oldest event of the last week that was looked at; `whole` is false if there was
    no time for older ones. `last` are the newest, whoever proposed them.
    """

    since: datetime
    whole: bool
    counts: dict[Severity, int]
    last: tuple[LikeDecision, ...]


class GuardExplained(msgspec.Struct, frozen=True, kw_only=True):
    """What a guard thought, if it restricted; else `now`, where it stands today if that is known.

    `remedy` completes "allowed ...": what would have let the proposal pass this guard.
    """

    guard: str
    restricted: bool
    decision: Severity | UnsetType = UNSET
    rule: str | UnsetType = UNSET
    also: tuple[str, ...] | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    remedy: str | UnsetType = UNSET
    parts: tuple[CommandPart, ...] | UnsetType = UNSET  # of a command, that do not pass
    now: str | UnsetType = UNSET


class DecisionExplained(msgspec.Struct, frozen=True, kw_only=True):
    """`remedy` is the smallest change that would have turned the decision, into `then`.

    It completes "allowed ..."; empty if nobody knows. `guards` are in the order of the chain.
    """

    seq: int
    at: datetime
    agent: str
    type: str
    tier: Tier
    risk: Risk
    reversibility: Reversibility
    decision: Severity
    decided_by: str | None  # the guard that gave the reason
    reason: str
    remedy: str
    then: Severity | None
    first: bool
    digest: str
    guards: tuple[GuardExplained, ...]
    proposal: Proposal
    audit: AuditPlace | UnsetType = UNSET  # where it was written down


class OutcomeExplained(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    at: datetime
    agent: str
    ok: bool
    error: str


class WithheldExplained(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    at: datetime
    why: Literal["stopped", "late"]


class ExplainAnswer(Done, frozen=True, kw_only=True):
    """`steps` are the proposal's way from one event to the next, `like` others of its kind."""

    id: str
    decisions: tuple[DecisionExplained, ...]
    outcomes: tuple[OutcomeExplained, ...]
    withheld: tuple[WithheldExplained, ...]
    steps: tuple[Step, ...] = ()
    like: LikeDecisions | UnsetType = UNSET


class ExplainQuestion(Question[ExplainAnswer], frozen=True, tag="explain"):
    """Explain what was decided about a proposal, why, and what came of it.

    It is named by its `id`, by that of the request that it opened, or as an agent's `last`.
    """

    paths = (
        "/decisions/{id}",
        "/agents/{last}/explain",
    )
    id: str = ""
    last: str = ""

    def __post_init__(self) -> None:
        if bool(self.id) == bool(self.last):
            raise ValueError("give `id`, of a proposal or a request, or an agent as `last`")

    def __str__(self) -> str:
        return f"with id {self.id!r}" if self.id else f"about {self.last!r}"
