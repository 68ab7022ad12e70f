"""What guards count: budgets, breakers, limits, spending, anomalies and types of action."""

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
    """US dollars; a limit of null is none. `raised` is what people have added to it.

    `pending` is what actions that wait for approval would cost. It counts against no limit.
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


class BudgetsAnswer(Done, frozen=True, kw_only=True):
    """The most used first; `left_out` rows had no room."""

    budgets: tuple[Budget, ...]
    spending: tuple[Spending, ...]
    left_out: int


class BudgetsQuestion(Question[BudgetsAnswer], frozen=True, tag="budgets"):
    """List budgets with what is spent and reserved."""

    paths = ("/budgets",)


class TypeKnown(msgspec.Struct, frozen=True, kw_only=True):
    """`aliases` are its other names, shipped or configured.

    Shipped names also hold as one word: `WebFetch` is `web_fetch`.
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
    toml: str  # what would make it known


class TypesAnswer(Done, frozen=True, kw_only=True):
    """`same_as` has the other names that the configuration gives to types."""

    types: tuple[TypeKnown, ...]
    same_as: dict[str, str]
    unknown: tuple[TypeUnknown, ...]


class TypesQuestion(Question[TypesAnswer], frozen=True, tag="types"):
    """List the known types of action, and the proposed ones that are unknown."""

    paths = ("/types",)


RaisedScope = Literal["day", "agent", "keyless", "model"]


class BudgetLifted(Done, frozen=True, kw_only=True):
    """What is permitted now, how much of it is used or set aside, and for how long."""

    limit: float
    used: float
    until: datetime


class RaiseCommand(Command[BudgetLifted], frozen=True, kw_only=True, tag="budget_raise"):
    """Raise a budget until midnight UTC; it needs a reason.

    `name` is that of the agent or the model.
    """

    scope: RaisedScope
    name: Annotated[str, Meta(max_length=128)] = ""
    usd: Annotated[float, Meta(gt=0, le=MAX_USD)]
    reason: Annotated[str, Meta(max_length=2000)]


class CallWindow(msgspec.Struct, frozen=True, kw_only=True):
    """The newest calls, oldest first, and how those within `window_s` went.

    Of a breaker that is not closed they are the calls that opened it.
    """

    calls: int  # within `window_s` before now, or before it opened
    failures: int  # of these
    in_a_row: int  # failures, to the last call, however old they are
    ages_s: tuple[float, ...]
    ok: tuple[bool, ...]  # of the same calls


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """For one agent, else for all with keys, or for all without if `keyless`."""

    breaker: str
    state: State
    agent: str | None
    reason: str
    calls: int
    failures: int
    probes_out: int
    keyless: bool
    open_s: float | None
    wait_s: float | None  # until one that is open is tried again
    probes_started: int = 0  # since it last opened
    probes_succeeded: int = 0
    window: CallWindow | None = None  # null: it is not among the first hundred


class BreakersAnswer(Done, frozen=True, kw_only=True):
    """Those that are not closed first, then those that were called last; `left_out` had no room.

    One opens when of at least `min_calls` calls within `window_s` a share of `error_rate` failed,
    or `max_consecutive_failures` in a row.
    """

    breakers: tuple[Breaker, ...]
    left_out: int
    limits: BreakerConfig


class BreakersQuestion(Question[BreakersAnswer], frozen=True, tag="breakers"):
    """List circuit breakers and how their calls went."""

    paths = ("/breakers",)


BucketKind = Literal["global", "keyless", "agent", "model"]


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens are proposals; `id` is the agent or the model.

    `keyless` is what all agents without a key may take of everybody's while others have keys.
    """

    kind: BucketKind
    id: str
    tokens: float
    burst: float
    per_s: float  # that it gains
    full_s: float  # until it is full if nobody takes any more; 0: it is


class RoundsReached(msgspec.Struct, frozen=True, kw_only=True):
    """A session that may begin no more rounds; the implicit one is called ""."""

    agent: str
    session: str
    rounds: int
    limit: int


class CoolingDown(msgspec.Struct, frozen=True, kw_only=True):
    """A target that an agent may not dispatch to yet."""

    agent: str
    target: str
    left_s: float
    cooldown_s: float


class LimitsAnswer(Done, frozen=True, kw_only=True):
    """Everybody's bucket first, then the emptiest; `left_out` rows had no room."""

    buckets: tuple[Bucket, ...]
    iterations: tuple[RoundsReached, ...]
    cooldowns: tuple[CoolingDown, ...]  # those that take longest first
    left_out: int


class LimitsQuestion(Question[LimitsAnswer], frozen=True, tag="limits"):
    """Show what is left of every rate, and which agents rounds and cooldowns hold back."""

    paths = ("/limits",)


class Projection(msgspec.Struct, frozen=True, kw_only=True):
    """What comes of it if spending goes on as in the last `over_s` seconds.

    Those are the quarter of an hour that has begun and the four before it, as far as they are of
    this day, and never fewer than 900.
    """

    over_s: float
    spent: float  # in these seconds
    per_hour: float
    at_midnight: float  # spent by the end of the day
    used_up_at: datetime | None  # null: not today, or there is no limit


class MoneyAnswer(Done, frozen=True, kw_only=True):
    """Amounts are US dollars, and the day is UTC's.

    `purchases` are prices, which are not model spending and count in no other amount but `pending`.
    `series` has what was spent by the end of each `bucket_s` seconds since midnight; the last of
    these have just begun. Agents, models and live sessions are those that used most.
    """

    at: datetime
    today: Budget
    purchases: Budget
    keyless: Budget | None  # of agents without a key, once others have one
    bucket_s: int
    series: tuple[float, ...]
    projection: Projection
    agents: tuple[Budget, ...]
    models: tuple[Budget, ...]
    sessions: tuple[Budget, ...]
    left_out: int  # rows that had no room


class MoneyQuestion(Question[MoneyAnswer], frozen=True, tag="money"):
    """Show today's spending and whether the budget lasts until midnight UTC."""

    paths = ("/money",)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something unusual that was found, in one agent, one breaker or in general."""

    at: datetime
    rule: str
    severity: Level
    message: str
    agent: str | None
    breaker: str | None
    seen: bool  # a person gave a command after it


class AnomaliesAnswer(Done, frozen=True, kw_only=True):
    """The newest first, unless the worst are asked for; of equally bad ones the newest.

    `holding` says what holds now, by agent and detector. `measures` are the numbers, as they are
    now, of each agent and detector, or breaker, of the findings.
    """

    findings: tuple[Finding, ...]
    holding: dict[str, dict[str, int]]
    since_human_s: float
    measures: tuple[Measure, ...]
    left_out: int  # findings, agents and measures that had no room


class AnomaliesQuestion(Question[AnomaliesAnswer], frozen=True, tag="anomalies"):
    """List recent anomalies, and the numbers that detectors compare.

    The newest or the worst first, of all agents or of one.
    """

    paths = ("/anomalies",)
    sort: Literal["at", "severity"] = "at"
    agent: str | None = None  # only of this agent
