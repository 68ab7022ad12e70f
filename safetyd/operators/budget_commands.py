"""Raising a budget for the rest of the day, and striking a reported cost."""

from datetime import UTC, datetime, timedelta

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import BudgetRaised, CostStruck
from safetyd.core.messages.money import nano, usd
from safetyd.journal.mailbox import Carried, Plan
from safetyd.operators.contract.guard_contract import (
    BudgetLifted,
    RaiseCommand,
    ReportStruck,
    StrikeCommand,
)
from safetyd.operators.replies import Refusal, refused


def budget_raise(by: str, command: RaiseCommand) -> Plan[BudgetLifted | Refusal]:
    def plan(state: EngineState, moment: Moment) -> Carried[BudgetLifted | Refusal]:
        if problem := _problem(state, moment, command):
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
        found = state.guards.budget.raisable(command.scope, command.name, moment.at)
        limit = usd(max(standing.limit for standing in found) + nano(command.usd))
        used = usd(max(standing.account.used for standing in found))
        lifted = BudgetLifted(ok=True, limit=limit, used=used, until=_midnight(moment.at))
        return Carried((raised,), lifted)

    return plan


def budget_strike(by: str, command: StrikeCommand) -> Plan[ReportStruck | Refusal]:
    def plan(state: EngineState, moment: Moment) -> Carried[ReportStruck | Refusal]:
        reason = command.reason.strip()
        if not reason:
            return Carried((), refused("invalid", "striking a cost needs a reason"))
        entry = state.guards.budget.large_reports().find(command.id)
        if entry is None:
            known = "`safetyd budgets` lists the large reports"
            return Carried(
                (), refused("not_found", f"no large report has the ID {command.id}; {known}")
            )
        struck = CostStruck(
            at=moment.at,
            t=moment.t,
            agent=entry.agent,
            id=entry.id,
            usd=usd(entry.nano),
            by=by,
            reason=reason,
        )
        paused = bool(state.guards.pause.pauses(entry.agent))
        reply = ReportStruck(ok=True, agent=entry.agent, usd=struck.usd, paused=paused)
        return Carried((struck,), reply)

    return plan


def _problem(state: EngineState, moment: Moment, command: RaiseCommand) -> str:
    """Return why the budget cannot be raised, or an empty string."""
    named = command.scope in {"agent", "model"}
    if not command.reason.strip():
        return "raising a budget needs a reason"
    if named != bool(command.name):
        return f"{command.scope} needs a name" if named else f"{command.scope} takes no name"
    if not state.guards.budget.raisable(command.scope, command.name, moment.at):
        whose = f"{command.scope} {command.name}".rstrip()
        return f"{whose} has no limit to raise; `safetyd budgets` lists the limits"
    return ""


def _midnight(at: datetime) -> datetime:
    """Return the end of the UTC day."""
    begun = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return begun + timedelta(days=1)
