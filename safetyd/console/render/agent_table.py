"""Agents as people read them: a line each, with what is left of every limit."""

from collections.abc import Iterator, Sequence
from typing import Final

from safetyd.console.agent_list import open_count
from safetyd.console.render.layout import table
from safetyd.console.terminal_text import plain, several
from safetyd.core.messages.money import dollars, nano
from safetyd.core.text.time_words import duration
from safetyd.operators.contract.agent_contract import AgentRow, AgentSeen
from safetyd.operators.contract.guard_contract import Budget

_LIMITS: Final = ("agent", "state", "heard", "errors", "rate", "iterations")
_MONEY: Final = {"chain": "chain", "session": "session", "agent": "today"}
_SETTINGS: Final = {
    "errors": "safe_mode.max_consecutive_errors",
    "tokens": "agents.NAME.burst",
    "iterations": "agents.NAME.iterations",
    "chain": "budget.chain_usd",
    "session": "agents.NAME.session_usd",
    "agent": "budget.agent_usd",
}
_DONE: Final = ("allowed", "asked", "blocked", "failed")


def agents(rows: Sequence[AgentSeen]) -> str:
    """Return every agent with its limits, what holds of it now, and what it did."""
    if not rows:
        return "No agent has been heard yet."
    head = (*_LIMITS, *_MONEY.values(), "anomalies", "key", *_DONE, "open")
    return table((head, *((*_limits(row), *_deeds(row)) for row in rows)))


def brief(rows: Sequence[AgentRow]) -> str:
    """Return the same without what they did."""
    head = (*_LIMITS, *_MONEY.values(), "anomalies")
    return table((head, *map(_limits, rows)))


def limits(row: AgentRow, *, reached: bool) -> Iterator[str]:
    """Yield each limit that an agent has reached or is only near, in words and with its setting."""
    agent = plain(row.agent)
    for name in row.near:
        if (name in row.reached) is reached:
            setting = _SETTINGS.get(name, plain(name)).replace("NAME", agent)
            yield f"{agent}: {_limit(row, name)} ({setting})"


def _limit(row: AgentRow, name: str) -> str:
    match name:
        case "errors":
            errors = several(row.consecutive_errors, "error")
            return f"{errors} in a row; {row.max_consecutive_errors} lead to safe mode"
        case "tokens":
            return f"{int(row.tokens)} of the {int(row.burst)} actions at once are left"
        case "iterations":
            return f"{row.iterations} of the {row.max_iterations} rounds of a session"
    for budget in row.budgets:
        if budget.scope == name:
            return f"{_purse(budget)} used {spent(budget)}"
    return "a limit"


def _purse(budget: Budget) -> str:
    if budget.scope == "agent":
        return "it has today"
    return f"{plain(budget.scope)} {plain(budget.id) or 'without a name'} has"


def _limits(row: AgentRow) -> tuple[str, ...]:
    close = row.near
    return (
        plain(row.agent),
        plain(row.state).replace("_", " "),
        f"{duration(row.heard_s)} ago",
        _of(row.consecutive_errors, row.max_consecutive_errors, near="errors" in close),
        _of(int(row.tokens), int(row.burst), near="tokens" in close),
        _of(row.iterations, row.max_iterations, near="iterations" in close),
        *(_money(row, scope) for scope in _MONEY),
        ", ".join(map(plain, row.anomalies)) or "-",
    )


def _deeds(row: AgentSeen) -> tuple[str, ...]:
    key = "yes" if row.key else "no"
    return (key, *(str(getattr(row, name)) for name in _DONE), str(open_count(row)))


def _money(row: AgentRow, scope: str) -> str:
    for budget in row.budgets:
        if budget.scope == scope:
            return spent(budget, near=scope in row.near)
    return "-"


def spent(budget: Budget, *, near: bool = False) -> str:
    """Return how much of a budget is spent or reserved, and apart from it how much is pending."""
    used = dollars(nano(budget.spent) + nano(budget.reserved))
    limit, pending = budget.limit, budget.pending
    said = used if limit is None else _of(used, dollars(nano(limit)), near=near)
    return f"{said}, {dollars(nano(pending))} pending" if pending else said


def _of(part: object, whole: object, *, near: bool) -> str:
    return f"{part} of {whole}{' !' if near else ''}"
