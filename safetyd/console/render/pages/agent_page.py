"""All that is known of one agent, as people read it."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from safetyd.console.render.agent_table import spent
from safetyd.console.render.decision_table import decision_line
from safetyd.console.render.layout import indented, table, when
from safetyd.console.render.pages.anomaly_page import findings, measures
from safetyd.console.render.pages.money_page import usd
from safetyd.console.stop_file import told_of
from safetyd.console.terminal_text import plain, several
from safetyd.core.text.time_words import duration
from safetyd.operators.contract.agent_contract import (
    AgentAnswer,
    AgentRow,
    LiveSession,
    OpenAction,
)
from safetyd.operators.contract.decision_contract import Row
from safetyd.operators.contract.guard_contract import Budget

TEXT_CHARS: Final = 100
LINES: Final = 10  # of the timeline
_SAME: Final = ("decision", "rule", "type", "text", "path", "message")


def agent(view: AgentAnswer, timeline: Sequence[Row]) -> str:
    """Return what holds an agent, what it may still do, what it does and did, and what is usual."""
    row = view.agent
    parts = (
        "\n".join((_title(row), *_holds(view), *indented(_facts(row, view.budgets)))),
        "\n".join(_pending(view)),
        _part("Under way:", map(_action, view.open_actions), "Nothing is under way."),
        _part("Sessions:", map(_session, view.sessions), "No session is live."),
        findings(view.findings),
        measures(view.measures) if view.measures else "",
        _part("Timeline:", _latest(timeline), ""),
        f"`safetyd decisions --agent {plain(row.agent)} --events` has all of it.",
    )
    return "\n\n".join(filter(None, parts))


def _title(row: AgentRow) -> str:
    key = "with a key" if row.key else "without a key"
    state = plain(row.state).replace("_", " ")
    return f"{plain(row.agent)}: {state}, {key}, heard {duration(row.heard_s)} ago"


def _holds(view: AgentAnswer) -> Iterator[str]:
    name = plain(view.agent.agent)
    for cause, ending in told_of(view.stops):
        yield f"STOPPED: {cause}"
        yield f"  {ending}"
    for pause in view.pauses:
        why = f": {plain(pause.reason)}" if pause.reason else ""
        yield f"PAUSED: by {plain(pause.by)} since {when(pause.since)}{why}"
        yield f"  `safetyd unpause {name}` ends it"
    if view.safe_mode.active:
        yield "SAFE MODE: it may only read"
        yield f"  `safetyd safe-mode status --agent {name}` says why and how it ends"


def _facts(row: AgentRow, budgets: Sequence[Budget]) -> Iterator[tuple[str, str]]:
    done = f"{row.allowed}, asked {row.asked}, blocked {row.blocked}"
    yield "allowed", f"{done}, failed {row.failed}"
    yield "errors", f"{row.consecutive_errors} of {row.max_consecutive_errors} in a row"
    yield "rate", f"{int(row.tokens)} of {int(row.burst)} left"
    yield "rounds", f"{row.iterations} of {row.max_iterations}"
    for budget in budgets:
        named = budget.scope in {"chain", "session"}
        which = f" in {plain(budget.id) or 'the one without a name'}" if named else ""
        label = "today" if budget.scope == "agent" else plain(budget.scope)
        yield label, f"{spent(budget)}{which}"


def _pending(view: AgentAnswer) -> Iterator[str]:
    if not view.pending_count:
        return
    wait = "request waits" if view.pending_count == 1 else "requests wait"
    yield f"{view.pending_count} {wait} for a person; `safetyd show ID` has each:"
    head = ("id", "asked", "type", "what")
    rows = [
        (plain(one.id), when(one.asked_at), plain(one.type), _said(one.text))
        for one in view.pending
    ]
    yield table((head, *rows))


def _action(row: OpenAction) -> str:
    said = f": {_said(row.text)}" if row.text else ""
    return f"  {plain(row.type)} for {duration(row.since_s)}{said}"


def _session(row: LiveSession) -> str:
    told = f"{several(row.rounds, 'round')}, {usd(row.spent)} spent"
    if so_far := row.so_far:
        model = f", {plain(so_far.model)}" if so_far.model else ""
        decided = several(so_far.decisions, "decision")
        told += f", {decided} since {when(so_far.started_at)}{model}"
    return f"  {plain(row.session) or 'without a name'}: {told}"


def _latest(timeline: Sequence[Row]) -> Iterator[str]:
    """Yield the newest lines; rows that say the same are one line with their number."""
    alike: dict[tuple[object, ...], list[Row]] = {}
    for row in timeline:
        alike.setdefault(tuple(getattr(row, name, None) for name in _SAME), []).append(row)
    for newest, *others in islice(alike.values(), LINES):
        times = f" ({len(others) + 1} times since {when(others[-1].at)})" if others else ""
        yield f"  {decision_line(newest)}{times}"


def _part(title: str, lines: Iterator[str], otherwise: str) -> str:
    told = list(lines)
    return "\n".join((title, *told)) if told else otherwise


def _said(text: str) -> str:
    return plain(text, TEXT_CHARS) or "-"
