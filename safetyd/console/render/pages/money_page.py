"""Today's money as people read it: what is spent, whether it lasts until midnight, and on what."""

from collections.abc import Iterator
from typing import Final

from safetyd.console.render.layout import day_end, indented, table, when
from safetyd.console.terminal_text import plain, several
from safetyd.core.messages.money import dollars, nano
from safetyd.core.text.time_words import duration
from safetyd.operators.contract.guard_contract import Budget, MoneyAnswer

_AMOUNTS: Final = ("spent", "reserved", "pending", "limit", "used")


def money(view: MoneyAnswer) -> str:
    """Return what is spent today and by midnight, then by agent, model and session."""
    parts = ["\n".join(("Money today, which is a day of UTC:", *indented(_today(view))))]
    for name, rows in (("agent", view.agents), ("model", view.models)):
        if rows:
            parts.append(table(((name, *_AMOUNTS), *(_row(row) for row in rows))))
    if view.sessions:
        sessions = ((plain(row.agent), *_row(row)) for row in view.sessions)
        parts.append(table((("agent", "session", *_AMOUNTS), *sessions)))
    if not (view.agents or view.models or view.sessions):
        parts.append("Nothing was spent. Agents report what calls cost with their outcomes.")
    if view.left_out:
        parts.append(f"{several(view.left_out, 'line')} with less in them left out.")
    return "\n\n".join(parts)


def _today(view: MoneyAnswer) -> Iterator[tuple[str, str]]:
    today, projection = view.today, view.projection
    yield "spent", _of_limit(today)
    yield "reserved", f"{usd(today.reserved)} for actions under way"
    yield "pending", f"{usd(today.pending)} for actions that need approval; counts nowhere yet"
    if bought := view.purchases.spent + view.purchases.reserved:
        yield "purchases", f"{usd(bought)}, apart from model spending"
    lately = f"in the last {duration(projection.over_s)}"
    yield "rate", f"{usd(projection.per_hour)} an hour, {lately}"
    yield "by the end", f"{usd(projection.at_midnight)} at this rate, at {day_end(view.at)}"
    if projection.used_up_at:
        more = "`safetyd budgets raise day AMOUNT --reason WHY` adds to it"
        yield "USED UP", f"{when(projection.used_up_at)} at this rate; {more}"
    if view.keyless:
        yield "keyless", f"{_of_limit(view.keyless)}, by all agents without a key"


def _of_limit(budget: Budget) -> str:
    if budget.limit is None:
        return f"{usd(budget.spent)}, without a limit"
    added = f", {usd(budget.raised)} of it added" if budget.raised else ""
    return f"{usd(budget.spent)} of {usd(budget.limit)}{added}"


def _row(row: Budget) -> tuple[str, ...]:
    limit, used = row.limit, row.spent + row.reserved
    share = f"{100 * used / limit:.0f} %" if limit else "-"
    amounts = (usd(row.spent), usd(row.reserved), usd(row.pending))
    return (plain(row.id) or "-", *amounts, "none" if limit is None else usd(limit), share)


def usd(amount: float) -> str:
    return dollars(nano(amount))
