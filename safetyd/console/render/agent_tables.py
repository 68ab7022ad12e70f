"""Agents as text: a table of agents and their limits, or everything about one agent."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from safetyd.console.agent_list import open_count
from safetyd.console.render.decision_table import decision_line
from safetyd.console.render.guard_tables import findings, measures
from safetyd.console.render.layout import Columns, because, indented, table, usd, when
from safetyd.console.render.money_tables import of, spent
from safetyd.console.stop_file import told_of
from safetyd.console.terminal_text import plain, several
from safetyd.core.text.time_words import duration
from safetyd.operators.contract.agent_contract import (
    AgentAnswer,
    AgentRow,
    AgentSeen,
    LiveSession,
    OpenAction,
    PendingRequest,
)
from safetyd.operators.contract.decision_contract import Row
from safetyd.operators.contract.guard_contract import Budget

TEXT_CHARS: Final = 100
LINES: Final = 10  # of the timeline

_SETTINGS: Final = {
    "errors": "safe_mode.max_consecutive_errors",
    "tokens": "agents.NAME.burst",
    "iterations": "agents.NAME.iterations",
    "chain": "budget.chain_usd",
    "session": "agents.NAME.session_usd",
    "agent": "budget.agent_usd",
}
_SAME: Final = ("decision", "rule", "type", "text", "path", "message")


def _errors(row: AgentRow) -> str:
    near = "errors" in row.near
    return of(row.consecutive_errors, row.max_consecutive_errors, near=near)


def _money(row: AgentRow, scope: str) -> str:
    found = (budget for budget in row.budgets if budget.scope == scope)
    return next((spent(budget, near=scope in row.near) for budget in found), "")


_LIMITS: Final[Columns[AgentRow]] = {
    "agent": lambda row: row.agent,
    "state": lambda row: row.state.replace("_", " "),
    "last seen": lambda row: f"{duration(row.heard_s)} ago",
    "errors": _errors,
    "rate": lambda row: of(int(row.tokens), int(row.burst), near="tokens" in row.near),
    "iterations": lambda row: of(row.iterations, row.max_iterations, near="iterations" in row.near),
    "chain": lambda row: _money(row, "chain"),
    "session": lambda row: _money(row, "session"),
    "today": lambda row: _money(row, "agent"),
    "anomalies": lambda row: ", ".join(row.anomalies),
}
_AGENTS: Final[Columns[AgentSeen]] = {
    **_LIMITS,
    "key": lambda row: row.key,
    "allowed": lambda row: row.allowed,
    "approvals": lambda row: row.asked,
    "blocked": lambda row: row.blocked,
    "failed": lambda row: row.failed,
    "open": open_count,
}
_PENDING: Final[Columns[PendingRequest]] = {
    "id": lambda row: row.id,
    "requested": lambda row: row.asked_at,
    "type": lambda row: row.type,
    "action": lambda row: plain(row.text, TEXT_CHARS),
}


def agents(rows: Sequence[AgentSeen]) -> str:
    """Return a table of agents with their state, their limits and decision counts."""
    return table(rows, _AGENTS) if rows else "No agent has connected yet."


def brief(rows: Sequence[AgentRow]) -> str:
    """Return a table of agents with their state and limits."""
    return table(rows, _LIMITS)


def limits(row: AgentRow, *, reached: bool) -> Iterator[str]:
    """Yield each limit that an agent has reached, or is near to, and the setting that defines it.

    With `reached`, yield only limits that are reached, otherwise only those that are near.
    """
    agent = plain(row.agent)
    for name in row.near:
        if (name in row.reached) is reached:
            yield f"{agent}: {_limit(row, name)} ({_SETTINGS[name].replace('NAME', agent)})"


def _limit(row: AgentRow, name: str) -> str:
    match name:
        case "errors":
            errors = several(row.consecutive_errors, "error")
            return f"{errors} in a row; safe mode starts at {row.max_consecutive_errors}"
        case "tokens":
            return f"{int(row.tokens)} of {int(row.burst)} actions left under its rate limit"
        case "iterations":
            return f"{row.iterations} of {row.max_iterations} rounds used in its session"
    budget = next(budget for budget in row.budgets if budget.scope == name)
    named = f" by {budget.scope} {plain(budget.id) or '(unnamed)'}"
    return f"{spent(budget)} used{' today' if name == 'agent' else named}"


def agent(view: AgentAnswer, timeline: Sequence[Row]) -> str:
    """Return everything about one agent: holds, limits, requests, actions, sessions, anomalies."""
    row = view.agent
    parts = (
        "\n".join((_title(row), *_holds(view), *indented(_facts(row, view.budgets)))),
        "\n".join(_pending(view)),
        _part("In progress:", map(_action, view.open_actions), "Nothing in progress."),
        _part("Sessions:", map(_session, view.sessions), "No active session."),
        findings(view.findings),
        measures(view.measures) if view.measures else "",
        _part("Timeline:", _latest(timeline), ""),
        f"For the full timeline: `safetyd decisions --agent {plain(row.agent)} --events`",
    )
    return "\n\n".join(filter(None, parts))


def _title(row: AgentRow) -> str:
    key = "with a key" if row.key else "without a key"
    state = row.state.replace("_", " ")
    return f"{plain(row.agent)}: {state}, {key}, last seen {duration(row.heard_s)} ago"


def _holds(view: AgentAnswer) -> Iterator[str]:
    name = plain(view.agent.agent)
    for cause, ending in told_of(view.stops):
        yield f"STOPPED: {cause}"
        yield f"  {ending}"
    for pause in view.pauses:
        yield f"PAUSED: by {plain(pause.by)} since {when(pause.since)}{because(pause.reason)}"
        yield f"  To end it: `safetyd unpause {name}`"
    if view.safe_mode.active:
        yield "SAFE MODE: it can only read"
        yield f"  `safetyd safe-mode status --agent {name}` shows why and how to end it."


def _facts(row: AgentRow, budgets: Sequence[Budget]) -> Iterator[tuple[str, str]]:
    done = f"{row.allowed} allowed, {row.asked} needed approval, {row.blocked} blocked"
    yield "decisions", f"{done}; {several(row.failed, 'action')} failed"
    yield "errors", f"{row.consecutive_errors} of {row.max_consecutive_errors} in a row"
    yield "rate", f"{int(row.tokens)} of {int(row.burst)} left"
    yield "rounds", f"{row.iterations} of {row.max_iterations}"
    for budget in budgets:
        named = budget.scope in {"chain", "session"}
        which = f" in {plain(budget.id) or '(unnamed)'}" if named else ""
        yield "today" if budget.scope == "agent" else budget.scope, f"{spent(budget)}{which}"


def _pending(view: AgentAnswer) -> Iterator[str]:
    if view.pending_count:
        yield f"{several(view.pending_count, 'pending request')}; `safetyd show ID` shows one:"
        yield table(view.pending, _PENDING)


def _action(row: OpenAction) -> str:
    return f"  {plain(row.type)} for {duration(row.since_s)}{because(row.text, TEXT_CHARS)}"


def _session(row: LiveSession) -> str:
    told = f"{several(row.rounds, 'round')}, {usd(row.spent)} spent"
    if so_far := row.so_far:
        model = f", {plain(so_far.model)}" if so_far.model else ""
        decided = several(so_far.decisions, "decision")
        told += f", {decided} since {when(so_far.started_at)}{model}"
    return f"  {plain(row.session) or '(unnamed)'}: {told}"


def _latest(timeline: Sequence[Row]) -> Iterator[str]:
    """Yield the newest decisions and events. Equal ones share a line with their count."""
    alike: dict[tuple[object, ...], list[Row]] = {}
    for row in timeline:
        alike.setdefault(tuple(getattr(row, name, None) for name in _SAME), []).append(row)
    for newest, *others in islice(alike.values(), LINES):
        times = f" ({len(others) + 1} times since {when(others[-1].at)})" if others else ""
        yield f"  {decision_line(newest)}{times}"


def _part(title: str, lines: Iterator[str], otherwise: str) -> str:
    told = list(lines)
    return "\n".join((title, *told)) if told else otherwise
