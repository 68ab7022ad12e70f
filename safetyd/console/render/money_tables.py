"""Spending and budgets as text."""

from collections.abc import Iterator
from typing import Final

from safetyd.console.render.layout import Columns, day_end, indented, left_out, table, usd, when
from safetyd.console.terminal_text import plain
from safetyd.core.messages.money import dollars, nano
from safetyd.core.text.time_words import duration
from safetyd.operators.contract.guard_contract import (
    Budget,
    BudgetLifted,
    BudgetsAnswer,
    LargeReported,
    MoneyAnswer,
    ReportStruck,
    Spending,
)


def _limit(row: Budget) -> str:
    if row.limit is None:
        return "none"
    added = f" ({usd(row.raised)} of it added)" if row.raised else ""
    return f"{usd(row.limit)}{added}"


def _share(row: Budget) -> str:
    return f"{100 * (row.spent + row.reserved) / row.limit:.0f} %" if row.limit else ""


_AMOUNTS: Final[Columns[Budget]] = {
    "spent": lambda row: usd(row.spent),
    "reserved": lambda row: usd(row.reserved),
    "pending": lambda row: usd(row.pending),
    "limit": _limit,
}
_BUDGETS: Final[Columns[Budget]] = {
    "budget": lambda row: row.scope,
    "name": lambda row: row.id,
    "agent": lambda row: row.agent,
    **_AMOUNTS,
}
_SPENDING: Final[Columns[Spending]] = {
    "agent": lambda row: row.agent,
    "session": lambda row: row.session,
    "model": lambda row: row.model,
    "spent": lambda row: usd(row.spent),
}
_LARGE: Final[Columns[LargeReported]] = {
    "large reports": lambda row: row.id,
    "agent": lambda row: row.agent,
    "date": lambda row: row.date,
    "reports": lambda row: row.reports,
    "reported": lambda row: usd(row.usd),
    "counted for others": lambda row: usd(row.counted),
}
_TODAY: Final[Columns[Budget]] = {
    **_AMOUNTS,
    "used": _share,
}


def money(view: MoneyAnswer) -> str:
    """Return today's spending, the projection until midnight UTC, and the biggest spenders."""
    parts = ["\n".join(("Spending today (UTC):", *indented(_today(view))))]
    for name, rows in (("agent", view.agents), ("model", view.models)):
        if rows:
            parts.append(table(rows, {name: lambda row: row.id, **_TODAY}))
    if view.sessions:
        named: Columns[Budget] = {"agent": lambda row: row.agent, "session": lambda row: row.id}
        parts.append(table(view.sessions, {**named, **_TODAY}))
    if not (view.agents or view.models or view.sessions):
        parts.append("No spending yet. Agents report costs with their outcomes.")
    return "\n\n".join((*parts, *left_out(view.left_out)))


def _today(view: MoneyAnswer) -> Iterator[tuple[str, str]]:
    today, projection = view.today, view.projection
    yield "spent", _of_limit(today)
    yield "reserved", f"{usd(today.reserved)} for actions in progress"
    yield "pending", f"{usd(today.pending)} for actions that need approval; not counted yet"
    if bought := view.purchases.spent + view.purchases.reserved:
        limit = "" if view.purchases.limit is None else f" of {_limit(view.purchases)}"
        yield "purchases", f"{usd(bought)}{limit}, not counted as spending"
    lately = f"over the last {duration(projection.over_s)}"
    yield "rate", f"{usd(projection.per_hour)} per hour {lately}"
    yield "projected", f"{usd(projection.at_midnight)} by {day_end(view.at)}"
    if projection.used_up_at:
        more = "To raise the limit: `safetyd budgets raise day AMOUNT --reason WHY`"
        yield "USED UP", f"by {when(projection.used_up_at)} at this rate. {more}"
    if view.keyless:
        yield "anonymous", f"{_of_limit(view.keyless)} by all anonymous agents"


def _of_limit(budget: Budget) -> str:
    if budget.limit is None:
        return f"{usd(budget.spent)} (no limit)"
    return f"{usd(budget.spent)} of {_limit(budget)}"


def budgets(view: BudgetsAnswer) -> str:
    """Return tables of budgets, of spending by agent, session and model, and of large reports."""
    parts = [table(view.budgets, _BUDGETS)]
    if view.spending:
        parts.append(table(view.spending, _SPENDING))
    if view.large_reports:
        parts.append(table(view.large_reports, _LARGE))
        parts.append(
            "To take a report out of all accounts: `safetyd budgets strike ID --reason WHY`"
        )
    return "\n\n".join((*parts, *left_out(view.left_out)))


def raised(scope: str, reply: BudgetLifted) -> str:
    limit = f"The limit of {plain(scope)} is {usd(reply.limit)} until {when(reply.until)}"
    if reply.used >= reply.limit:
        return f"{limit}, but it is STILL USED UP: {usd(reply.used)} is spent or reserved."
    return f"{limit}; {usd(reply.used)} of it is spent or reserved."


def struck(reply: ReportStruck) -> str:
    agent = plain(reply.agent)
    said = f"{usd(reply.usd)} that {agent} reported counts in no account any more"
    return f"{said}. {agent} is still paused: safetyd unpause {agent}" if reply.paused else said


def spent(budget: Budget, *, near: bool = False) -> str:
    """Return how much of a budget is spent or reserved, and the pending amount if any."""
    used = dollars(nano(budget.spent) + nano(budget.reserved))
    said = used if budget.limit is None else of(used, usd(budget.limit), near=near)
    return f"{said}, {usd(budget.pending)} pending" if budget.pending else said


def of(part: object, whole: object, *, near: bool) -> str:
    """Return `part of whole`, with an exclamation mark if the limit is near."""
    return f"{part} of {whole}{' !' if near else ''}"
