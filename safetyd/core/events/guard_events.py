"""What guards and people change: stops, pauses, safe mode, breakers, budgets, anomalies."""

from typing import Literal

from safetyd.core.events.event import Event, Level

PauseSource = Literal["operator", "anomaly", "budget", "rollback"]


class NameForgotten(Event, kw_only=True, tag="name_forgotten"):
    """A name without a key made room for another one: whatever is known of it goes.

    It follows from what is written down.
    """

    lasting = False

    agent: str


class Stopped(Event, kw_only=True, omit_defaults=True, tag="stopped"):
    """Nobody may act, or one agent may not, until every source is cleared."""

    source: str  # "operator", "anomaly", "environment" or "file:<path>"
    by: str
    reason: str = ""
    agent: str | None = None
    epoch: int
    via: str = ""  # the way of the command, if it did not come over the bus


class Resumed(Event, kw_only=True, omit_defaults=True, tag="resumed"):
    sources: tuple[str, ...]
    by: str
    reason: str = ""
    agent: str | None = None
    epoch: int
    via: str = ""


class Forgotten(Event, kw_only=True, omit_defaults=True, tag="forgotten"):
    """An operator reset an agent's loop visits."""

    agent: str
    by: str
    session: str | None = None
    episode: str | None = None
    via: str = ""


class Paused(Event, kw_only=True, omit_defaults=True, tag="paused"):
    """One agent may not act until every source is cleared."""

    agent: str
    source: PauseSource
    by: str
    reason: str = ""
    via: str = ""


class Unpaused(Event, kw_only=True, omit_defaults=True, tag="unpaused"):
    agent: str
    sources: tuple[str, ...]
    by: str
    reason: str = ""
    approved: bool = False  # a person approved what had met the limit, so that rises
    via: str = ""


class SafeModeEntered(Event, kw_only=True, omit_defaults=True, tag="safe_mode_entered"):
    """Only reading is allowed: one agent, all without a key, or everybody if `agent` is None."""

    by: str  # an operator's name, or "safetyd"
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
    breaker: str  # "api.openai.com", "api.openai.com/code" for one agent, "code:t-3" for a task
    state: Literal["closed", "half_open", "open"]
    reason: str
    agent: str | None = None
    keyless: bool = False  # it is for agents without a key; for all of them if `agent` is None
    failed: str = ""  # the agent whose probe failed or was late


class BudgetMarked(Event, kw_only=True, omit_defaults=True, tag="budget_marked"):
    """A budget first came near its limit, or first refused. Amounts are US dollars."""

    mark: Literal["warning", "exceeded"]
    scope: str
    id: str
    spent: float
    reserved: float
    limit: float
    estimate: float
    agent: str | None = None


class BudgetRaised(Event, kw_only=True, omit_defaults=True, tag="budget_raised"):
    """An operator permits so many US dollars more until the UTC day is over."""

    scope: Literal["day", "agent", "keyless", "model"]
    usd: float
    by: str
    reason: str
    id: str = ""  # the agent's or the model's name


class AnomalyFound(Event, kw_only=True, omit_defaults=True, tag="anomaly_found"):
    """A detector's condition began to hold."""

    rule: str
    severity: Level
    message: str
    agent: str | None = None
    breaker: str | None = None


class PersonSeen(Event, kw_only=True, tag="person_seen"):
    """Somebody did something that only a person does."""

    by: str
    how: str
