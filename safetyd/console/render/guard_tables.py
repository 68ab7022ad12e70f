"""The state of guards as text: safe mode, breakers, limits, anomalies and types."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from safetyd.console.render.layout import (
    Columns,
    aligned,
    because,
    left_out,
    names,
    some,
    table,
    when,
)
from safetyd.console.terminal_text import plain, several
from safetyd.core.anonymous_pool import ANONYMOUS
from safetyd.core.guards.anomaly.measures import Measure
from safetyd.core.guards.kernel import EVERYBODY
from safetyd.core.guards.safe_mode import Hold
from safetyd.core.text.time_words import duration
from safetyd.operators.contract.guard_contract import (
    AnomaliesAnswer,
    Breaker,
    BreakersAnswer,
    Bucket,
    CoolingDown,
    Finding,
    LimitsAnswer,
    RoundsReached,
    TypeKnown,
    TypesAnswer,
    TypeUnknown,
)
from safetyd.operators.contract.hold_contract import (
    SafeModeAnswer,
    SafeModeLeft,
    SafeModeShown,
    UnpauseDone,
)

TIERS: Final = (
    "auto_allowed runs without approval, requires_permission needs approval, prohibited is "
    "blocked.\n[rules] and the other guards can restrict each type further."
)

ONE_WORD: Final = "These names also match without underscores: WebFetch is web_fetch."

_SHARED: Final = {"global": "all agents", "keyless": "anonymous agents"}  # buckets
_ALIAS_COLUMNS: Final = 76  # the width of the column "also known as"


def unpaused(agent: str, reply: UnpauseDone) -> str:
    if not reply.cleared:
        return f"{plain(agent)} was not paused."
    said = f"{plain(agent)} can act again. It was paused by: {names(reply.cleared)}."
    if "budget" not in reply.cleared:
        return said
    return (
        f"{said}\nThe budget of its session is unchanged, so its next action that costs money "
        "will pause it again.\nTo give the session more money, approve the request that this pause "
        "creates. `safetyd budgets raise` raises only daily budgets."
    )


def safe_mode(view: SafeModeShown | SafeModeAnswer) -> str:
    """Return which agents are in safe mode, why, and how to end it.

    If none is, return how many errors in a row there were and how many start safe mode.
    """
    if not view.active:
        return _not_in_safe_mode(view)
    lines = [line for hold in view.holds for line in _hold(hold)]
    if more := len(view.agents) - len(view.holds):
        lines.append(f"  and {more} more: `safetyd safe-mode --json`")
        lines.append("  To end all: `safetyd safe-mode exit --all`")
    return "\n".join(lines)


def _hold(hold: Hold) -> Iterator[str]:
    who, left_ms = kernel_name(hold.agent), hold.cooldown_remaining_ms
    by = f"by {plain(hold.by)} since {when(hold.since)}"
    wait = f" in {duration(left_ms / 1000)}" if left_ms else ""
    early = " (to end it now, add --force --reason WHY)" if left_ms else ""
    yield f"SAFE MODE: {who} can only read, {by}{because(hold.reason)}"
    yield f"  To end it{wait}: {_exit_command(hold.agent)}{early}"


def _exit_command(kernel: object) -> str:
    named = f"'{kernel}'" if kernel in {EVERYBODY, ANONYMOUS} else plain(kernel)
    return f"`safetyd safe-mode exit --agent {named}`"


def _not_in_safe_mode(view: SafeModeShown | SafeModeAnswer) -> str:
    errors = several(view.consecutive_errors, "error")
    count = f"{errors} in a row; safe mode starts at {view.threshold}"
    if view.agent:
        return f"{plain(view.agent)} is not in safe mode ({plain(view.state)}; {count})."
    return f"No agent is in safe mode (at most {count})."


def left(agent: str | None, reply: SafeModeLeft) -> str:
    """Return which agents left safe mode, and whether the named agent is still in it."""
    return "\n".join((_left(agent, reply), *_still(agent, reply)))


def _left(agent: str | None, reply: SafeModeLeft) -> str:
    if reply.left:
        return f"Left safe mode: {some([kernel_name(name) for name in reply.left])}."
    if agent is None:
        return "No agent was in safe mode."
    return f"No safe mode was set for {kernel_name(agent)}."


def _still(agent: str | None, reply: SafeModeLeft) -> Iterator[str]:
    still = reply.still
    if reply.more:
        are = "is" if reply.more == 1 else "are"
        yield f"{reply.more} more {are} still in safe mode. Run the command again."
    elif EVERYBODY in still or (ANONYMOUS in still and agent not in {None, EVERYBODY}):
        holder = EVERYBODY if EVERYBODY in still else ANONYMOUS
        held = f"{kernel_name(agent)} can still only read, because of safe mode for"
        yield f"{held} {kernel_name(holder)}. To end that: {_exit_command(holder)}"
    elif still:
        yield f"Still in safe mode: {names(still)}. `safetyd safe-mode` shows details."


def kernel_name(name: object) -> str:
    """Return the agent that a safe mode applies to, or a description such as `all agents`."""
    if name == ANONYMOUS:
        return "all anonymous agents"
    return "all agents" if name == EVERYBODY else plain(name)


def whom(row: Breaker) -> str:
    """Return the agent that a breaker applies to, or a description such as `agents with keys`."""
    if row.agent:
        return plain(row.agent)
    return "anonymous agents" if row.keyless else "agents with keys"


def _why_open(row: Breaker) -> str:
    since = "" if row.open_s is None else f", {duration(row.open_s)} ago"
    return f"{plain(row.reason)}{since}" if row.reason else ""


def _if_closed(row: Breaker, count: int) -> int | None:
    """Return the count, or None if the breaker is not closed and so counts only probes."""
    return count if row.state == "closed" else None


_BREAKERS: Final[Columns[Breaker]] = {
    "breaker": lambda row: row.breaker,
    "state": lambda row: row.state.replace("_", " "),
    "for": whom,
    "calls": lambda row: _if_closed(row, row.calls),
    "failed": lambda row: _if_closed(row, row.failures),
    "reason": _why_open,
}
_BUCKETS: Final[Columns[Bucket]] = {
    "limit": lambda row: _SHARED.get(row.kind, row.kind),
    "name": lambda row: row.id,
    "left": lambda row: f"{int(row.tokens)} of {int(row.burst)}",
    "per minute": lambda row: f"{row.per_s * 60:g}",
    "full in": lambda row: duration(row.full_s) if row.full_s >= 1 else "now",
}
_ROUNDS: Final[Columns[RoundsReached]] = {
    "agent": lambda row: row.agent,
    "session": lambda row: row.session,
    "rounds": lambda row: f"{row.rounds} of {row.limit}",
}
_COOLDOWNS: Final[Columns[CoolingDown]] = {
    "agent": lambda row: row.agent,
    "target": lambda row: row.target,
    "available in": lambda row: duration(row.left_s),
}


def breakers(answer: BreakersAnswer) -> str:
    """Return a table of breakers: first those that are not closed."""
    if not answer.breakers:
        return "No dependency has been called yet."
    return "\n\n".join((table(answer.breakers, _BREAKERS), *left_out(answer.left_out)))


def limits(view: LimitsAnswer) -> str:
    """Return tables of rate limits, sessions that have used all their rounds, and cooldowns."""
    parts = [table(view.buckets, _BUCKETS)]
    if view.iterations:
        parts.append(table(view.iterations, _ROUNDS))
    if view.cooldowns:
        parts.append(table(view.cooldowns, _COOLDOWNS))
    return "\n\n".join((*parts, *left_out(view.left_out)))


def anomalies(view: AnomaliesAnswer) -> str:
    """Return recent anomalies, active anomalies, and the numbers that detectors compare."""
    parts = [findings(view.findings)]
    if view.holding:
        parts.append("\n".join(("Active now:", *_holding(view.holding))))
    if view.measures:
        parts.append(measures(view.measures))
    parts += left_out(view.left_out)
    parts.append(f"An operator was last active {duration(view.since_human_s)} ago.")
    return "\n\n".join(parts)


def _holding(holding: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    for agent, held in holding.items():
        told = ", ".join(f"{plain(name)} {several(count, 'time')}" for name, count in held.items())
        yield f"  {plain(agent)}: {told}"


def _rounded(value: float | None) -> str | None:
    return None if value is None else f"{value:.3g}"


def _measured(row: Measure) -> str:
    model = f", {row.model}" if row.model else ""
    return f"{row.agent or row.breaker or 'all agents'}{model}"


_FINDINGS: Final[Columns[Finding]] = {
    "severity": lambda row: row.severity,
    "time": lambda row: row.at,
    "subject": lambda row: row.agent or row.breaker or "all agents",
    "finding": lambda row: row.message if row.seen else f"new: {row.message}",
    "rule": lambda row: row.rule,
}
_MEASURES: Final[Columns[Measure]] = {
    "detector": lambda row: row.detector,
    "subject": _measured,
    "now": lambda row: _rounded(row.now),
    "usual": lambda row: _rounded(row.usual),
    "min": lambda row: _rounded(row.least),
    "max": lambda row: _rounded(row.most),
    "unit": lambda row: row.unit,
}


def findings(rows: Sequence[Finding]) -> str:
    """Return a table of anomalies. Those that no operator has seen are marked as new."""
    return table(rows, _FINDINGS) if rows else "No anomalies."


def measures(rows: Sequence[Measure]) -> str:
    """Return a table of the numbers that detectors compare."""
    return table(rows, _MEASURES)


_TYPES: Final[Columns[TypeKnown]] = {
    "type": lambda row: row.type,
    "tier": lambda row: row.tier,
    "risk": lambda row: row.risk,
    "reversibility": lambda row: row.reversibility,
    "talks to people": lambda row: "yes" if row.human else None,
}


def types(view: TypesAnswer) -> str:
    """Return a table of known types, then the settings that would define unknown types."""
    other = (*_aliases(view.types), *_same(view.same_as))
    return "\n".join((table(view.types, _TYPES), *other, "", TIERS, *_unknown(view.unknown)))


def _aliases(rows: Sequence[TypeKnown]) -> Iterator[str]:
    if named := [line for row in rows for line in _also(row.type, row.aliases)]:
        yield ""
        yield aligned((("type", "also known as"), *named))
        yield ONE_WORD


def _also(kind: str, aliases: Sequence[str]) -> Iterator[tuple[str, str]]:
    said = ", ".join(map(plain, aliases))
    lines = textwrap.wrap(said, _ALIAS_COLUMNS, break_long_words=False, break_on_hyphens=False)
    for number, line in enumerate(lines):
        yield ("" if number else plain(kind)), line


def _same(names: Mapping[str, str]) -> Iterator[str]:
    if names:
        yield ""
        yield aligned((("name", "same as"), *((plain(n), plain(names[n])) for n in names)))


def _unknown(rows: Sequence[TypeUnknown]) -> Iterator[str]:
    if rows:
        yield ""
        yield "Unknown types that were proposed. To define one, add it to the configuration:"
    for row in rows:
        yield ""
        yield f"# {plain(row.type)}: proposed {several(row.count, 'time')}"
        yield from map(plain, row.toml.split("\n"))
