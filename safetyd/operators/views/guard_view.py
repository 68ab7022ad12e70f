"""Budgets and action types."""

import heapq
import json
import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final

from safetyd.core.action_types import Kind, Kinds
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.guards.budget.limits import PendingSums, Spend, Standing
from safetyd.core.guards.budget.reported_costs import LargeReports
from safetyd.core.messages.money import usd
from safetyd.core.similar_types import like
from safetyd.operators.contract.guard_contract import (
    Budget,
    BudgetsAnswer,
    LargeReported,
    Spending,
    TypeKnown,
    TypesAnswer,
    TypeUnknown,
)
from safetyd.operators.views.paging import PAGE_BYTES, fitting

MAX_ROWS: Final = 1000  # maximum number of rows, for budgets and for spending each
# These values are as strict as those of an unknown type.
FILL_IN: Final = """\
tier = "requires_permission"  # auto_allowed | requires_permission | prohibited
reversibility = "unknown"     # read_only | reversible | irreversible | unknown
risk = "high"                 # low | medium | high | prohibited"""
MAX_COMPARED: Final = 32  # maximum of unknown types, because finding a similar type is slow

_is_bare = re.compile(r"[A-Za-z0-9_-]+\Z").match


def budgets(state: EngineState, moment: Moment) -> BudgetsAnswer:
    """Return budgets and spending."""
    standings = list(state.guards.budget.standings(moment.at))
    pending = pending_costs(state)
    spending = list(state.guards.budget.spending())
    most_used = heapq.nlargest(MAX_ROWS, standings, key=lambda s: s.account.used)
    dearest = heapq.nlargest(MAX_ROWS, spending, key=lambda spend: spend.spent)
    rows = fitting((budget(one, pending) for one in most_used), PAGE_BYTES // 2)
    spent = fitting(map(_spending, dearest), PAGE_BYTES // 4)
    found = sorted(state.guards.budget.large_reports(), key=lambda each: each.day, reverse=True)
    large = fitting(map(_large, found), PAGE_BYTES // 4)
    left_out = len(standings) + len(spending) + len(found) - len(rows) - len(spent) - len(large)
    return BudgetsAnswer(
        ok=True, budgets=rows, spending=spent, left_out=left_out, large_reports=large
    )


def pending_costs(state: EngineState, agent: str | None = None) -> PendingSums:
    """Return the cost of pending requests, of all agents or one."""
    asked = (request.asked for request in state.approvals.pending(agent))
    return state.guards.budget.pending(agent, asked)


def budget(standing: Standing, pending: PendingSums) -> Budget:
    return Budget(
        scope=standing.scope,
        id=standing.id,
        agent=standing.agent,
        spent=usd(standing.spent),
        reserved=usd(standing.reserved),
        limit=usd(standing.limit) if standing.base else None,
        raised=usd(standing.account.raised),
        pending=usd(pending.of(standing)),
    )


def keyless_budget(state: EngineState, moment: Moment, pending: PendingSums) -> Budget | None:
    """Return the daily budget of anonymous agents, if they have their own share."""
    found = state.guards.budget.raisable("keyless", "", moment.at)
    return budget(found[0], pending) if found else None


def _spending(spend: Spend) -> Spending:
    return Spending(
        agent=spend.agent, session=spend.session, model=spend.model, spent=usd(spend.spent)
    )


def _large(entry: LargeReports) -> LargeReported:
    return LargeReported(
        id=entry.id,
        agent=entry.agent,
        date=date.fromordinal(entry.day).isoformat(),
        reports=entry.count,
        usd=usd(entry.nano),
        counted=usd(entry.common),
    )


def types(state: EngineState, _moment: Moment) -> TypesAnswer:
    """Return known types, their other names, and unknown types that agents proposed."""
    kinds = Kinds(state.policy.types, state.policy.profile)
    known, aliases = kinds.known, kinds.aliases()
    unknown = state.guards.classify.unknown_types()
    often = sorted(unknown, key=unknown.__getitem__, reverse=True)
    tables = [
        _toml(name, known if number < MAX_COMPARED else {}) for number, name in enumerate(often)
    ]
    return TypesAnswer(
        ok=True,
        types=tuple(_type(known[name], aliases.get(name, ())) for name in sorted(known)),
        same_as={n: t.same_as for n, t in sorted(state.policy.types.items()) if t.same_as},
        unknown=tuple(
            TypeUnknown(type=name, count=unknown[name], toml=toml)
            for name, toml in zip(often, tables, strict=True)
        ),
    )


def _type(kind: Kind, aliases: Sequence[str]) -> TypeKnown:
    return TypeKnown(
        type=kind.type,
        tier=kind.tier,
        risk=kind.risk,
        reversibility=kind.reversibility,
        human=kind.human,
        aliases=tuple(aliases),
    )


def _toml(name: str, known: Mapping[str, Kind]) -> str:
    """Return a table that defines a type, as an alias of a similar type or to be filled in."""
    quoted = json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")
    near = like(name, known)
    table = f'same_as = "{near}"' if near else FILL_IN
    return f"[types.{name if _is_bare(name) else quoted}]\n{table}"
