"""Agents: the list, and everything about one of them."""

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

# Its kernel's, if it is neither stopped nor paused; what holds it back most comes first.
AgentState = Literal[
    "stopped", "paused", "safe_mode", "executing", "planning", "evaluating", "ready"
]
AgentOrder = Literal["name", "state", "errors", "rate", "money", "heard", "blocked"]
Near = Literal["errors", "tokens", "iterations"] | Scope


class CurrentAction(msgspec.Struct, frozen=True, kw_only=True):
    """The newest action that was allowed and has no outcome yet."""

    id: str
    type: str
    since_s: float  # for how long


class AgentRow(msgspec.Struct, frozen=True, kw_only=True):
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
    near: tuple[Near, ...]
    reached: tuple[Near, ...]  # of these
    action: CurrentAction | None = None
    last: LastDecision | None = None  # null: none that is remembered


class AgentSeen(AgentRow, frozen=True, kw_only=True):
    open_actions: tuple[str, ...]


class AgentsAnswer(Done, frozen=True, kw_only=True):
    """If `more` follow, ask again `after` the last one, or with a larger `offset`."""

    agents: tuple[AgentSeen, ...]
    more: bool
    total: int  # how many agents there are to choose from, on all pages


class AgentsQuestion(Question[AgentsAnswer], frozen=True, tag="agents"):
    """List agents and what they did.

    They come in the order of names, those that follow `after`; In that order come those that
    follow `after`; `sort` asks for another order, in which `offset` agents are passed over.
    Numbers come smallest first, states with what holds an agent back most. `text` is a part of
    the name, `key` says with or without a key.
    """

    paths = ("/agents",)
    protecting = True
    limit: Annotated[int, Meta(ge=1)] = 1000
    after: str = ""
    offset: Annotated[int, Meta(ge=0)] = 0
    sort: AgentOrder = "name"
    descending: bool = False
    state: AgentState | None = None  # only agents in this state
    text: str = ""  # only agents with this part in their names
    key: bool | None = None  # only agents with a key, or without

    def __post_init__(self) -> None:
        if self.after and (self.sort != "name" or self.descending):
            raise ValueError("`after` is for the order of names; use `offset`")


class SessionSoFar(msgspec.Struct, frozen=True, kw_only=True):
    """What a session did so far."""

    started_at: datetime
    heard_at: datetime
    provider: str | None
    model: str | None
    decisions: int  # and outcomes of what was done without asking
    input_tokens: int
    output_tokens: int


class LiveSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that is not over; the one without a name is called "". Money is US dollars."""

    session: str
    so_far: SessionSoFar | None  # null: of it nothing is kept
    rounds: int
    spent: float
    reserved: float


class OpenAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action that was allowed and has no outcome yet."""

    id: str
    type: str
    text: str  # its begin, or nothing if it is not remembered
    session: str
    model: str | None
    dependency: str | None
    since_s: float  # for how long


class PendingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What waits for a person."""

    id: str
    type: str
    text: str  # its begin
    asked_at: datetime
    deadline: datetime | None


class AgentAnswer(Done, frozen=True, kw_only=True):
    """Actions and findings are newest first, requests oldest first.

    `measures` are the numbers that detectors compare, with what is usual for this agent.
    """

    agent: AgentRow
    stops: tuple[Stop, ...]  # that hold it, those of everybody included
    pauses: tuple[Pausing, ...]
    safe_mode: SafeModeShown
    sessions: tuple[LiveSession, ...]
    open_actions: tuple[OpenAction, ...]
    pending: tuple[PendingRequest, ...]
    pending_count: int
    budgets: tuple[Budget, ...]  # of the day, then of chains and sessions, the most used first
    findings: tuple[Finding, ...]
    measures: tuple[Measure, ...]


class AgentQuestion(Question[AgentAnswer], frozen=True, tag="agent"):
    """Show everything about one agent."""

    paths = ("/agents/{agent}",)
    agent: str
