"""Agents as people read them: a line each, with what is left of every limit."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from safetyd.console.agent_list import open_count
from safetyd.console.render.layout import duration, table
from safetyd.console.terminal_text import plain
from safetyd.core.messages.money import dollars, nano

Row = Mapping[str, Any]

_LIMITS: Final = ("agent", "state", "heard", "errors", "tokens", "iterations")
_MONEY: Final = {"chain": "chain", "session": "session", "agent": "today"}
_SETTINGS: Final = {
    "errors": "errors: safe_mode.max_consecutive_errors",
    "tokens": "tokens: agents.NAME.burst",
    "iterations": "iterations: agents.NAME.iterations",
    "chain": "chain: budget.chain_usd",
    "session": "session: agents.NAME.session_usd",
    "agent": "today: budget.agent_usd",
}
_DONE: Final = ("allowed", "asked", "blocked", "failed")


def agents(rows: Sequence[Row]) -> str:
    """Return every agent with its limits, what holds of it now, and what it did."""
    if not rows:
        return "No agent has been heard yet."
    head = (*_LIMITS, *_MONEY.values(), "anomalies", "key", *_DONE, "open")
    return table((head, *((*_limits(row), *_deeds(row)) for row in rows)))


def brief(rows: Sequence[Row]) -> str:
    """Return the same without what they did."""
    head = (*_LIMITS, *_MONEY.values(), "anomalies")
    return table((head, *map(_limits, rows)))


def limits(row: Row, *, reached: bool) -> str:
    """Return an agent's name, the limits that it has reached or is only near, and their settings.

    Nothing, if there are none.
    """
    agent = plain(row["agent"])
    met = [name for name in row["near"] if (name in row["reached"]) is reached]
    settings = ", ".join(_SETTINGS.get(name, plain(name)) for name in met)
    return f"{agent} ({settings.replace('NAME', agent)})" if met else ""


def _limits(row: Row) -> tuple[str, ...]:
    close = row["near"]
    return (
        plain(row["agent"]),
        plain(row["state"]).replace("_", " "),
        f"{duration(row['heard_s'])} ago",
        _of(row["consecutive_errors"], row["max_consecutive_errors"], near="errors" in close),
        _of(int(row["tokens"]), int(row["burst"]), near="tokens" in close),
        _of(row["iterations"], row["max_iterations"], near="iterations" in close),
        *(_money(row, scope) for scope in _MONEY),
        ", ".join(map(plain, row["anomalies"])) or "-",
    )


def _deeds(row: Row) -> tuple[str, ...]:
    key = "yes" if row["key"] else "no"
    return (key, *(str(row[name]) for name in _DONE), str(open_count(row)))


def _money(row: Row, scope: str) -> str:
    for budget in row["budgets"]:
        if budget["scope"] == scope:
            return spent(budget, near=scope in row["near"])
    return "-"


def spent(budget: Row, *, near: bool = False) -> str:
    """Say how much is used of a budget, what is set aside included."""
    used = dollars(nano(budget["spent"]) + nano(budget["reserved"]))
    limit = budget["limit"]
    return used if limit is None else _of(used, dollars(nano(limit)), near=near)


def _of(part: object, whole: object, *, near: bool) -> str:
    return f"{part} of {whole}{' !' if near else ''}"
