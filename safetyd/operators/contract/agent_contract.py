"""The list of agents, and all details of one agent."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from safetyd.core.events.guard_events import PauseSource
from safetyd.core.guards.anomaly.measures import Measure
from safetyd.core.guards.budget.limits import Scope
from safetyd.core.guards.kernel import State
from safetyd.core.guards.stop import Stop
from safetyd.core.reporting.last_decisions import LastDecision
from safetyd.operators.contract.guard_contract import Budget, Finding
from safetyd.operators.contract.hold_contract import Pausing, SafeModeShown
from safetyd.operators.contract.question import Question
from safetyd.operators.replies import Done

# `stopped`, `paused`, or the state of the agent's kernel. The most restrictive state comes first.
AgentState = Literal[
    "stopped", "paused", "safe_mode", "executing", "planning", "evaluating", "ready"
]
AgentOrder = Literal["name", "state", "errors", "rate", "money", "heard", "blocked"]
Near = Literal["errors", "tokens", "iterations"] | Scope


class CurrentAction(msgspec.Struct, frozen=True, kw_only=True):
    """The newest allowed action without an outcome."""

    id: str
    type: str
    since_s: float  # How long it has been open, in seconds.


class AgentRow(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's decisions, restrictions and limits."""

    agent: str
    key: bool
    heard_s: float
    allowed: int
    asked: int
    blocked: int
    failed: int
    unreported: int  # How many open actions are not listed.
    stopped: bool
    pauses: tuple[PauseSource, ...]
    state: AgentState
    kernel: State
    consecutive_errors: int
    max_consecutive_errors: int
    tokens: float  # How much of `burst` is left.
    burst: float
    iterations: int  # Rounds of the live session with the most rounds.
    max_iterations: int
    budgets: tuple[Budget, ...]  # The most used chain and session budgets, and the daily one.
    anomalies: dict[str, int]  # Current anomalies, and how often each was seen.
    near: tuple[Near, ...]
    reached: tuple[Near, ...]  # The limits in `near` that the agent has reached.
    action: CurrentAction | None = None
    last: LastDecision | None = None  # The last decision, or null if it is not in memory.


class AgentSeen(AgentRow, frozen=True, kw_only=True):
    open_actions: tuple[str, ...]


class AgentsAnswer(Done, frozen=True, kw_only=True):
    """If `more` is true, ask again with the last agent as `after`, or with a larger `offset`."""

    agents: tuple[AgentSeen, ...]
    more: bool
    total: int  # How many agents match, on all pages.


class AgentsQuestion(Question[AgentsAnswer], frozen=True, tag="agents"):
    """List agents and their decisions.

    Agents are sorted by name unless `sort` is set. To continue a list, use `after` when sorted by
    name, and `offset` otherwise. Numbers are sorted smallest first. States are sorted by how much
    they restrict an agent.
    """

    paths = ("/agents",)
    protecting = True
    limit: Annotated[int, Meta(ge=1)] = 1000
    after: str = ""
    offset: Annotated[int, Meta(ge=0)] = 0
    sort: AgentOrder = "name"
    descending: bool = False
    state: AgentState | None = None  # Only agents in this state.
    text: str = ""  # Only agents whose name contains this text.
    key: bool | None = None  # True: only agents with a key. False: only agents without one.

    def __post_init__(self) -> None:
        if self.after and (self.sort != "name" or self.descending):
            raise ValueError("`after` works only when sorted by name; use `offset`")


class SessionSoFar(msgspec.Struct, frozen=True, kw_only=True):
    """The decisions and costs of a session so far."""

    started_at: datetime
    heard_at: datetime
    provider: str | None
    model: str | None
    decisions: int  # Decisions, and outcomes reported without a proposal.
    input_tokens: int
    output_tokens: int


class LiveSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that has not ended. An unnamed session is called "". Amounts are US dollars."""

    session: str
    so_far: SessionSoFar | None  # Null if the session has no record.
    rounds: int
    spent: float
    reserved: float


class OpenAction(msgspec.Struct, frozen=True, kw_only=True):
    """An allowed action without an outcome."""

    id: str
    type: str
    text: str  # The start of the text, empty if it is not remembered.
    session: str
    model: str | None
    dependency: str | None
    since_s: float  # How long it has been open, in seconds.


class PendingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A pending request."""

    id: str
    type: str
    text: str  # The start of the text.
    asked_at: datetime
    deadline: datetime | None


class AgentAnswer(Done, frozen=True, kw_only=True):
    """Actions and findings are newest first, requests oldest first.

    `measures` are the numbers that detectors compare, with the usual values of this agent.
    """

    agent: AgentRow
    stops: tuple[Stop, ...]  # Stops that apply to it, including those of all agents.
    pauses: tuple[Pausing, ...]
    safe_mode: SafeModeShown
    sessions: tuple[LiveSession, ...]
    open_actions: tuple[OpenAction, ...]
    pending: tuple[PendingRequest, ...]
    pending_count: int
    budgets: tuple[Budget, ...]  # The daily budget, then chains and sessions, most used first.
    findings: tuple[Finding, ...]
    measures: tuple[Measure, ...]


class AgentQuestion(Question[AgentAnswer], frozen=True, tag="agent"):
    """Show everything about one agent."""

    paths = ("/agents/{agent}",)
    agent: str
