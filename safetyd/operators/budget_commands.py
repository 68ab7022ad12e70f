"""How people permit more money for what is left of the day."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal, get_args

import msgspec
from msgspec import Meta

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import BudgetRaised
from safetyd.core.messages.money import MAX_USD, nano, usd
from safetyd.journal.mailbox import Carried, Plan
from safetyd.operators.replies import Done, Refusal, refused

Scope = Literal["day", "agent", "keyless", "model"]
RAISED: Final = get_args(Scope)


class RaiseCommand(msgspec.Struct, kw_only=True):
    """`name` is that of the agent or the model."""

    scope: Scope
    name: Annotated[str, Meta(max_length=128)] = ""
    usd: Annotated[float, Meta(gt=0, le=MAX_USD)]
    reason: Annotated[str, Meta(max_length=2000)]


class BudgetLifted(Done, frozen=True, kw_only=True):
    """What is permitted now, how much of it is used or set aside, and for how long."""

    limit: float
    used: float
    until: datetime


def budget_raise(by: str, command: RaiseCommand) -> Plan[BudgetLifted | Refusal]:
    def plan(engine: EngineState, moment: Moment) -> Carried[BudgetLifted | Refusal]:
        if problem := _problem(engine, moment, command):
            return Carried((), refused("invalid", problem))
        raised = BudgetRaised(
            at=moment.at,
            t=moment.t,
            scope=command.scope,
            usd=command.usd,
            by=by,
            reason=command.reason.strip(),
            id=command.name,
        )
        found = engine.guards.budget.raisable(command.scope, command.name, moment.at)
        limit = usd(max(standing.limit for standing in found) + nano(command.usd))
        used = usd(max(standing.account.used for standing in found))
        lifted = BudgetLifted(ok=True, limit=limit, used=used, until=_midnight(moment.at))
        return Carried((raised,), lifted)

    return plan


def _problem(engine: EngineState, moment: Moment, command: RaiseCommand) -> str:
    """Return why there is nothing to raise."""
    named = command.scope in {"agent", "model"}
    if not command.reason.strip():
        return "a budget is raised for a reason, which is recorded"
    if named != bool(command.name):
        return f"{command.scope} needs a name" if named else f"{command.scope} has no name"
    if not engine.guards.budget.raisable(command.scope, command.name, moment.at):
        whose = f"{command.scope} {command.name}".rstrip()
        return f"there is no limit for {whose} to raise; `safetyd budgets` shows those there are"
    return ""


def _midnight(at: datetime) -> datetime:
    """Return when the UTC day is over."""
    begun = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return begun + timedelta(days=1)
