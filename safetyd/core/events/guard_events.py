"""Events of guards and operators: stops, pauses, safe mode, breakers, budgets, anomalies."""

from typing import Literal

from safetyd.core.events.event import Event, Level

PauseSource = Literal["operator", "anomaly", "budget", "rollback", "report"]


class NameForgotten(Event, kw_only=True, tag="name_forgotten"):
    """An anonymous name was forgotten to make room for another one.

    It is not journalled, because it follows from journalled events.
    """

    lasting = False

    agent: str


class Stopped(Event, kw_only=True, omit_defaults=True, tag="stopped"):
    """One agent is stopped, or all agents if `agent` is None, until every source is cleared."""

    # One of operator, anomaly, environment or file:<path>. With several daemons,
    # environment:<daemon> or file:<path> on <daemon>.
    source: str
    by: str
    reason: str = ""
    agent: str | None = None
    epoch: int
    via: str = ""  # How the command was given, if not over the bus.


class Resumed(Event, kw_only=True, omit_defaults=True, tag="resumed"):
    sources: tuple[str, ...]
    by: str
    reason: str = ""
    agent: str | None = None
    epoch: int
    via: str = ""
    urgent: bool = False  # notify as urgently as about the stop; False in older journals


class Forgotten(Event, kw_only=True, omit_defaults=True, tag="forgotten"):
    """An operator reset an agent's loop visits."""

    agent: str
    by: str
    session: str | None = None
    episode: str | None = None
    via: str = ""


class Paused(Event, kw_only=True, omit_defaults=True, tag="paused"):
    """An agent is paused until every source is cleared."""

    agent: str
    source: PauseSource
    by: str
    reason: str = ""
    via: str = ""
    usual: str = ""  # If an anomaly caused it: what is usual, see AnomalyFound.


class Unpaused(Event, kw_only=True, omit_defaults=True, tag="unpaused"):
    agent: str
    sources: tuple[str, ...]
    by: str
    reason: str = ""
    approved: bool = False  # True: the budget request was approved, so the limit rises.
    via: str = ""


class SafeModeEntered(Event, kw_only=True, omit_defaults=True, tag="safe_mode_entered"):
    """Safe mode began for one agent, all anonymous agents, or all agents (`agent` is None)."""

    by: str  # The name of an operator, or safetyd.
    agent: str | None = None
    reason: str = ""
    errors: int = 0
    via: str = ""


class SafeModeExited(Event, kw_only=True, omit_defaults=True, tag="safe_mode_exited"):
    by: str
    agent: str | None = None
    reason: str = ""
    forced: bool = False
    via: str = ""


class BreakerMoved(Event, kw_only=True, omit_defaults=True, tag="breaker_moved"):
    # Such as api.openai.com, api.openai.com/code for one agent, or code:t-3 for a task.
    breaker: str
    state: Literal["closed", "half_open", "open"]
    reason: str
    agent: str | None = None
    # True: the breaker is for anonymous agents; for all of them if `agent` is null.
    keyless: bool = False
    failed: str = ""  # The agent whose probe failed or timed out.


class BudgetMarked(Event, kw_only=True, omit_defaults=True, tag="budget_marked"):
    """A budget is nearly used up, or an action exceeded it. Amounts are in US dollars."""

    mark: Literal["warning", "exceeded"]
    scope: str
    id: str
    spent: float
    reserved: float
    limit: float
    estimate: float
    agent: str | None = None
    # When the budget is full again, such as "at 00:00Z". Empty in older journals.
    renewed: str = ""


class BudgetRaised(Event, kw_only=True, omit_defaults=True, tag="budget_raised"):
    """An operator raised a budget until the end of the UTC day."""

    scope: Literal["day", "agent", "keyless", "model"]
    usd: float
    by: str
    reason: str
    id: str = ""  # The name of the agent or model.


class LargeReport(Event, kw_only=True, omit_defaults=True, tag="large_report"):
    """An agent reported a cost that is beyond the price of its tokens, or beyond its share.

    The cost counts in full for this agent, and for others only up to `counted_usd`.
    """

    agent: str
    id: str  # for `safetyd budgets strike`; further large reports of the day are added to it
    usd: float  # beyond what was reserved
    counted_usd: float  # how much of it counts for other agents
    why: Literal["price", "share"]  # it is beyond the price of its tokens, or beyond the share
    tokens_usd: float | None = None  # the price of its tokens
    share_usd: float = 0.0  # what was left of the agent's share


class CostStruck(Event, kw_only=True, omit_defaults=True, tag="cost_struck"):
    """An operator struck the large reports of an agent out of all accounts."""

    agent: str
    id: str  # of the first large report
    usd: float
    by: str
    reason: str


class AnomalyFound(Event, kw_only=True, omit_defaults=True, tag="anomaly_found"):
    """A detector found an anomaly."""

    rule: str
    severity: Level
    message: str
    agent: str | None = None
    breaker: str | None = None
    usual: str = ""  # Completes "Usual is ..."; empty in older journals.


class HostUnasked(Event, kw_only=True, omit_defaults=True, tag="host_unasked"):
    """A coding agent ran tools that safetyd had not allowed."""

    agent: str
    host: str  # The coding agent, such as claude.
    tools: tuple[str, ...]  # Some of the tools, each once.
    calls: int = 1
    session: str = ""
    refused: int = 0  # How many of the calls safetyd had refused; the others did not ask.


class HostFilesAccepted(Event, kw_only=True, omit_defaults=True, tag="host_files_accepted"):
    """An operator accepted the files that a coding agent loads, in their present state."""

    host: str  # The coding agent, such as claude.
    states: dict[str, str]  # The hash of the files in each folder; empty if there are none.
    by: str
    request_id: str = ""  # The approved request. Empty: `safetyd protect` recorded the state.


class PersonSeen(Event, kw_only=True, tag="person_seen"):
    """An operator was active."""

    by: str
    how: str
