"""What the guards say to people: pure functions from answers to text."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from safetyd.console.render.layout import names, some, table, when
from safetyd.console.terminal_text import plain, several
from safetyd.core.guards.safe_mode import Hold
from safetyd.core.messages.money import dollars, nano
from safetyd.core.party import KEYLESS
from safetyd.core.text.time_words import duration
from safetyd.operators.contract.guard_contract import (
    Breaker,
    BreakersAnswer,
    Bucket,
    Budget,
    BudgetLifted,
    BudgetsAnswer,
    CoolingDown,
    LimitsAnswer,
    RoundsReached,
    Spending,
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

EVERYBODY: Final = "*"  # the kernel that holds all agents

TIERS: Final = (
    "auto_allowed may run, requires_permission needs a person, prohibited is blocked;\n"
    "[rules] and the other guards may restrict each of them further."
)

ONE_WORD: Final = "These names also hold as one word: WebFetch is web_fetch."

_BUCKETS: Final = {"global": "everybody", "keyless": "agents without a key"}
_ALIAS_COLUMNS: Final = 76  # of the names of one type, which may take several lines


def unpaused(agent: str, reply: UnpauseDone) -> str:
    if not reply.cleared:
        return f"{plain(agent)} was not paused."
    return f"{plain(agent)} may go on; it was paused by: {', '.join(map(plain, reply.cleared))}."


def safe_mode(view: SafeModeShown | SafeModeAnswer) -> str:
    """Say who is in safe mode, by whom, why and how each is left; or how far away it is."""
    if not view.active:
        return _not_in_safe_mode(view)
    lines = [line for hold in view.holds for line in _hold(hold)]
    if more := len(view.agents) - len(view.holds):
        all_of_them = "`safetyd safe-mode exit --all` ends it for all"
        lines.append(f"  and {more} more: `safetyd safe-mode --json`; {all_of_them}")
    return "\n".join(lines)


def _hold(hold: Hold) -> Iterator[str]:
    who, left_ms = kernel_name(hold.agent), hold.cooldown_remaining_ms
    why = f": {plain(hold.reason)}" if hold.reason else ""
    by = f"by {plain(hold.by)} since {when(hold.since)}"
    leave = f"in {duration(left_ms / 1000)}" if left_ms else "now"
    early = ", before that with --force --reason" if left_ms else ""
    yield f"SAFE MODE: {who} may only read, {by}{why}"
    yield f"  {leave} {_way_out(hold.agent)} ends it{early}"


def _way_out(kernel: object) -> str:
    named = f"'{kernel}'" if kernel in {EVERYBODY, KEYLESS} else plain(kernel)
    return f"`safetyd safe-mode exit --agent {named}`"


def _not_in_safe_mode(view: SafeModeShown | SafeModeAnswer) -> str:
    errors = several(view.consecutive_errors, "error")
    count = f"{errors} in a row, safe mode at {view.threshold}"
    if view.agent:
        return f"{plain(view.agent)} is not in safe mode ({plain(view.state)}; {count})."
    return f"Nobody is in safe mode (at most {count})."


def left(agent: str | None, reply: SafeModeLeft) -> str:
    """Say who left safe mode, and what still holds those whom the command named."""
    return "\n".join((_left(agent, reply), *_still(agent, reply)))


def _left(agent: str | None, reply: SafeModeLeft) -> str:
    if reply.left:
        return f"Out of safe mode: {some([kernel_name(name) for name in reply.left])}."
    if agent is None:
        return "Nobody was in safe mode."
    return f"There was no safe mode of {kernel_name(agent)} to leave."


def _still(agent: str | None, reply: SafeModeLeft) -> Iterator[str]:
    still = reply.still
    if reply.more:
        are = "is" if reply.more == 1 else "are"
        yield f"{reply.more} more {are} still in it: say it again."
    elif EVERYBODY in still or (KEYLESS in still and agent not in {None, EVERYBODY}):
        holder = EVERYBODY if EVERYBODY in still else KEYLESS
        held = f"{kernel_name(agent)} may still only read, as {kernel_name(holder)}"
        yield f"{held}: {_way_out(holder)} ends that."
    elif still:
        yield f"Still in one of their own: {names(still)}; `safetyd safe-mode` says more."


def kernel_name(name: object) -> str:
    """Return whose kernel it is, in words."""
    if name == KEYLESS:
        return "all agents without a key"
    return "everybody" if name == EVERYBODY else plain(name)


def budgets(view: BudgetsAnswer) -> str:
    """Return a line for each budget, then what was spent by agent, session and model."""
    head = ("budget", "name", "agent", "spent", "reserved", "pending", "limit")
    parts = [table((head, *map(_budget, view.budgets)))]
    if view.spending:
        columns = ("agent", "session", "model", "spent")
        parts.append(table((columns, *map(_spend, view.spending))))
    if view.left_out:
        parts.append(f"{several(view.left_out, 'line')} with less in them left out.")
    return "\n\n".join(parts)


def raised(scope: str, reply: BudgetLifted) -> str:
    may = f"{plain(scope)} may use {_usd(reply.limit)} until {when(reply.until)}"
    if reply.used >= reply.limit:
        return f"{may}, and it is STILL USED UP: {_usd(reply.used)} is spent or set aside."
    return f"{may}; {_usd(reply.used)} of it is spent or set aside."


def _budget(row: Budget) -> tuple[str, ...]:
    limit = "none" if row.limit is None else _usd(row.limit)
    if row.limit is not None and row.raised:
        limit += f" ({_usd(row.raised)} of it added)"
    amounts = (_usd(row.spent), _usd(row.reserved), _usd(row.pending), limit)
    return (plain(row.scope), _or_dash(row.id), _or_dash(row.agent), *amounts)


def _spend(row: Spending) -> tuple[str, ...]:
    names = (row.agent, row.session, row.model)
    return (*map(_or_dash, names), _usd(row.spent))


def breakers(answer: BreakersAnswer) -> str:
    """Return a line for each breaker, those that are not closed first."""
    if not answer.breakers:
        return "No dependency has been called yet."
    head = ("breaker", "state", "for", "calls", "failed", "why")
    shown = table((head, *map(_breaker, answer.breakers)))
    return f"{shown}\n\n{several(answer.left_out, 'line')} left out." if answer.left_out else shown


def _breaker(row: Breaker) -> tuple[str, ...]:
    since = "" if row.open_s is None else f", {duration(row.open_s)} ago"
    why = f"{plain(row.reason)}{since}" if row.reason else "-"
    counted = row.state == "closed"  # of what is not, only probes count
    counts = (str(row.calls), str(row.failures)) if counted else ("-", "-")
    state = plain(row.state).replace("_", " ")
    return (plain(row.breaker), state, whom(row), *counts, why)


def whom(row: Breaker) -> str:
    """Say for whom a breaker is."""
    if row.agent:
        return plain(row.agent)
    return "agents without a key" if row.keyless else "agents with keys"


def limits(view: LimitsAnswer) -> str:
    """Return a line for each bucket, then for what may begin no more rounds or waits."""
    head = ("rate of", "name", "left", "a minute", "full")
    parts = [table((head, *map(_bucket, view.buckets)))]
    if view.iterations:
        columns = ("agent", "session", "rounds")
        parts.append(table((columns, *map(_rounds, view.iterations))))
    if view.cooldowns:
        columns = ("agent", "dispatches to", "again in")
        parts.append(table((columns, *map(_cooldown, view.cooldowns))))
    if view.left_out:
        parts.append(f"{several(view.left_out, 'line')} left out.")
    return "\n\n".join(parts)


def _bucket(row: Bucket) -> tuple[str, ...]:
    whose = _BUCKETS.get(row.kind, plain(row.kind))
    left = f"{int(row.tokens)} of {int(row.burst)}"
    full = f"in {duration(row.full_s)}" if row.full_s >= 1 else "now"
    return (whose, _or_dash(row.id), left, f"{row.per_s * 60:g}", full)


def _rounds(row: RoundsReached) -> tuple[str, ...]:
    rounds = f"{row.rounds} of {row.limit}"
    return (plain(row.agent), _or_dash(row.session), rounds)


def _cooldown(row: CoolingDown) -> tuple[str, ...]:
    return (plain(row.agent), plain(row.target), duration(row.left_s))


def types(view: TypesAnswer) -> str:
    """Return the table of known types, then what to write to make the others known."""
    head = ("type", "tier", "risk", "reversibility", "speaks to a person")
    known = table((head, *map(_type, view.types)))
    other = (*_aliases(view.types), *_same(view.same_as))
    return "\n".join((known, *other, "", TIERS, *_unknown(view.unknown)))


def _type(row: TypeKnown) -> tuple[str, ...]:
    words = (row.type, row.tier, row.risk, row.reversibility)
    return (*map(plain, words), "yes" if row.human else "-")


def _aliases(rows: Sequence[TypeKnown]) -> Iterator[str]:
    if named := [line for row in rows for line in _also(row.type, row.aliases)]:
        yield ""
        yield table((("type", "also known as"), *named))
        yield ONE_WORD


def _also(kind: str, aliases: Sequence[str]) -> Iterator[tuple[str, str]]:
    said = ", ".join(map(plain, aliases))
    lines = textwrap.wrap(said, _ALIAS_COLUMNS, break_long_words=False, break_on_hyphens=False)
    for number, line in enumerate(lines):
        yield ("" if number else plain(kind)), line


def _same(names: Mapping[str, str]) -> Iterator[str]:
    if names:
        yield ""
        yield table((("name", "same as"), *((plain(n), plain(names[n])) for n in names)))


def _unknown(rows: Sequence[TypeUnknown]) -> Iterator[str]:
    if rows:
        yield ""
        yield "Proposed, but not known. To make one known, put into the configuration:"
    for row in rows:
        yield ""
        yield f"# {plain(row.type)}: proposed {several(row.count, 'time')}"
        yield from map(plain, row.toml.split("\n"))


def _or_dash(name: str | None) -> str:
    return plain(name) if name else "-"


def _usd(amount: float) -> str:
    return dollars(nano(amount))
