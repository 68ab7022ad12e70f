"""Queries about guards: budgets, breakers, limits, spending, anomalies and action types."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from safetyd.core.events.event import Level
from safetyd.core.guards.anomaly.measures import Measure
from safetyd.core.guards.budget.limits import Scope
from safetyd.core.guards.circuit import BreakerConfig, State
from safetyd.core.messages.money import MAX_USD
from safetyd.core.messages.proposal import Reversibility, Risk, Tier
from safetyd.operators.contract.question import Command, Question
from safetyd.operators.replies import Done


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts are US dollars. `limit` is null if there is none, and otherwise includes `raised`.

    Operators added `raised` to the limit. `pending` is the cost of actions that need approval. It
    does not count against the limit.
    """

    scope: Scope
    id: str
    agent: str | None
    spent: float
    reserved: float
    limit: float | None
    raised: float
    pending: float = 0.0


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    agent: str
    session: str
    model: str
    spent: float


class LargeReported(msgspec.Struct, frozen=True, kw_only=True):
    """The large reports of one agent on one day."""

    id: str  # for `budget_strike`
    agent: str
    date: str  # the UTC day, such as 2026-03-01
    reports: int  # how many there were
    usd: float  # their sum, beyond what was reserved
    counted: float  # how much of it counts for other agents


class BudgetsAnswer(Done, frozen=True, kw_only=True):
    """Budgets, most used first. `left_out` is how many did not fit."""

    budgets: tuple[Budget, ...]
    spending: tuple[Spending, ...]
    left_out: int
    large_reports: tuple[LargeReported, ...] = ()  # `budget_strike` takes them out of all accounts


class BudgetsQuestion(Question[BudgetsAnswer], frozen=True, tag="budgets"):
    """List budgets with spent and reserved amounts."""

    paths = ("/budgets",)


class TypeKnown(msgspec.Struct, frozen=True, kw_only=True):
    """`aliases` are other names of the type, shipped or configured.

    Shipped names are also matched as one word: `WebFetch` is `web_fetch`.
    """

    type: str
    tier: Tier
    risk: Risk
    reversibility: Reversibility
    human: bool
    aliases: tuple[str, ...] = ()


class TypeUnknown(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    count: int
    toml: str  # The table that would define the type.


class TypesAnswer(Done, frozen=True, kw_only=True):
    """`same_as` maps configured names to their types."""

    types: tuple[TypeKnown, ...]
    same_as: dict[str, str]
    unknown: tuple[TypeUnknown, ...]


class TypesQuestion(Question[TypesAnswer], frozen=True, tag="types"):
    """List known action types, and proposed types that are unknown."""

    paths = ("/types",)


RaisedScope = Literal["day", "agent", "keyless", "model"]


class BudgetLifted(Done, frozen=True, kw_only=True):
    """The new limit, how much of it is spent or reserved, and until when it applies."""

    limit: float
    used: float
    until: datetime


class RaiseCommand(Command[BudgetLifted], frozen=True, kw_only=True, tag="budget_raise"):
    """Raise a budget until midnight UTC; a reason is required.

    `name` is the agent or the model.
    """

    scope: RaisedScope
    name: Annotated[str, Meta(max_length=128)] = ""
    usd: Annotated[float, Meta(gt=0, le=MAX_USD)]
    reason: Annotated[str, Meta(max_length=2000)]


class ReportStruck(Done, frozen=True, kw_only=True):
    """The agent, what it had reported, and whether it is still paused."""

    agent: str
    usd: float
    paused: bool  # the agent is still paused


class StrikeCommand(Command[ReportStruck], frozen=True, kw_only=True, tag="budget_strike"):
    """Strike a large reported cost out of all accounts; a reason is required.

    `id` is that of an entry of `large_reports` in the answer of `budgets`.
    """

    id: Annotated[str, Meta(max_length=128)]
    reason: Annotated[str, Meta(max_length=2000)]


class CallWindow(msgspec.Struct, frozen=True, kw_only=True):
    """The newest calls, oldest first, and the results of those within `window_s`.

    For a breaker that is not closed, these are the calls that opened it.
    """

    calls: int  # Calls within `window_s` before now, or before the breaker opened.
    failures: int  # How many of these failed.
    in_a_row: int  # Failures in a row up to the last call, of any age.
    ages_s: tuple[float, ...]
    ok: tuple[bool, ...]  # Whether each of these calls succeeded.


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """A breaker for one agent, all agents with keys or, if `keyless`, all anonymous agents."""

    breaker: str
    state: State
    agent: str | None
    reason: str
    calls: int
    failures: int
    probes_out: int
    keyless: bool
    open_s: float | None
    wait_s: float | None  # Seconds until the next probe of an open breaker.
    probes_started: int = 0  # Probes since the breaker last opened.
    probes_succeeded: int = 0
    window: CallWindow | None = None  # Only for the first hundred breakers, else null.


class BreakersAnswer(Done, frozen=True, kw_only=True):
    """Open and half-open breakers first, then the others, last called first.

    `left_out` is how many did not fit.

    A breaker opens when `error_rate` of at least `min_calls` calls within `window_s` failed, or
    `max_consecutive_failures` in a row.
    """

    breakers: tuple[Breaker, ...]
    left_out: int
    limits: BreakerConfig


class BreakersQuestion(Question[BreakersAnswer], frozen=True, tag="breakers"):
    """List circuit breakers and the results of their calls."""

    paths = ("/breakers",)


BucketKind = Literal["global", "keyless", "agent", "model"]


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """A token bucket. Each proposal takes a token. `id` is the agent or the model.

    The bucket `keyless` is the part of the common bucket that all anonymous agents share. It exists
    only while other agents have keys.
    """

    kind: BucketKind
    id: str
    tokens: float
    burst: float
    per_s: float  # Tokens added per second.
    full_s: float  # Seconds until it is full if nobody uses it; 0 if it is full.


class RoundsReached(msgspec.Struct, frozen=True, kw_only=True):
    """A session that has reached its limit of rounds. An unnamed session is called ""."""

    agent: str
    session: str
    rounds: int
    limit: int


class CoolingDown(msgspec.Struct, frozen=True, kw_only=True):
    """A target that an agent cannot dispatch to yet."""

    agent: str
    target: str
    left_s: float
    cooldown_s: float


class LimitsAnswer(Done, frozen=True, kw_only=True):
    """The shared buckets first, then the emptiest. `left_out` is how many rows did not fit."""

    buckets: tuple[Bucket, ...]
    iterations: tuple[RoundsReached, ...]
    cooldowns: tuple[CoolingDown, ...]  # Longest first.
    left_out: int


class LimitsQuestion(Question[LimitsAnswer], frozen=True, tag="limits"):
    """Show rate limits, and agents that used up their rounds or are in a cooldown."""

    paths = ("/limits",)


class Projection(msgspec.Struct, frozen=True, kw_only=True):
    """The forecast if spending continues as in the last `over_s` seconds.

    These seconds are the current quarter of an hour and the four before it, limited to today, but
    at least 900.
    """

    over_s: float
    spent: float  # Spent in these seconds.
    per_hour: float
    at_midnight: float  # Forecast for the whole day.
    used_up_at: datetime | None  # Null if the limit is not reached today, or if there is none.


class MoneyAnswer(Done, frozen=True, kw_only=True):
    """Amounts are US dollars, the day is in UTC.

    `purchases` are prices of purchases, not model spending; only `pending` includes them. `series`
    is the total spent at the end of each `bucket_s` seconds since midnight; its last value is the
    total until now. Agents, models and live sessions are those that spent most.
    """

    at: datetime
    today: Budget
    purchases: Budget
    keyless: Budget | None  # The share of anonymous agents; null if they have none.
    bucket_s: int
    series: tuple[float, ...]
    projection: Projection
    agents: tuple[Budget, ...]
    models: tuple[Budget, ...]
    sessions: tuple[Budget, ...]
    left_out: int  # How many rows did not fit.


class MoneyQuestion(Question[MoneyAnswer], frozen=True, tag="money"):
    """Show today's spending and whether the budget lasts until midnight UTC."""

    paths = ("/money",)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """An anomaly of an agent, of a breaker, or in general."""

    at: datetime
    rule: str
    severity: Level
    message: str
    agent: str | None
    breaker: str | None
    seen: bool  # True if an operator sent `ack` after the anomaly.


class AnomaliesAnswer(Done, frozen=True, kw_only=True):
    """Anomalies, newest first or most severe first.

    `holding` lists current anomalies by agent and detector. `measures` are the current numbers of
    each agent, detector or breaker with a finding.
    """

    findings: tuple[Finding, ...]
    holding: dict[str, dict[str, int]]
    since_human_s: float
    measures: tuple[Measure, ...]
    left_out: int  # Findings, agents and measures that did not fit.


class AnomaliesQuestion(Question[AnomaliesAnswer], frozen=True, tag="anomalies"):
    """List recent anomalies, and the numbers that detectors compare.

    The list is for all agents or one, and sorted by time or by severity.
    """

    paths = ("/anomalies",)
    sort: Literal["at", "severity"] = "at"
    agent: str | None = None  # Only for this agent.
