"""What single guards know: budgets, breakers, anomalies and types of action."""

import heapq
import json
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from safetyd.core.action_types import Kind, Kinds
from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import AnomalyFound
from safetyd.core.guards.breaker import BreakerStatus
from safetyd.core.guards.budget.limits import Standing
from safetyd.core.messages.money import usd
from safetyd.core.similar_types import like
from safetyd.operators.views.paging import PAGE_BYTES, View, fitting

MAX_ROWS: Final = 1000  # of budgets and of spending
# As strict as a type that nobody knows.
FILL_IN: Final = """\
tier = "requires_permission"  # auto_allowed | requires_permission | prohibited
reversibility = "unknown"     # read_only | reversible | irreversible | unknown
risk = "high"                 # low | medium | high | prohibited"""
MAX_COMPARED: Final = 32  # unknown types, since to find one like it takes long

_is_bare = re.compile(r"[A-Za-z0-9_-]+\Z").match


def budgets(engine: Engine, moment: Moment) -> View:
    """Return what is spent and set aside, the most used first, and on what it was spent.

    Amounts are US dollars; a limit of None is none. `left_out` are rows beyond the bounds.
    """
    standings = list(engine.guards.budget.standings(moment.at))
    spending = list(engine.guards.budget.spending())
    most_used = heapq.nlargest(MAX_ROWS, standings, key=lambda s: s.account.used)
    dearest = heapq.nlargest(MAX_ROWS, spending, key=lambda spend: spend.spent)
    half = PAGE_BYTES // 2
    rows = fitting(map(budget, most_used), half)
    spent = fitting(({**spend._asdict(), "spent": usd(spend.spent)} for spend in dearest), half)
    return {
        "budgets": rows,
        "spending": spent,
        "left_out": len(standings) + len(spending) - len(rows) - len(spent),
    }


def budget(standing: Standing) -> View:
    return {
        "scope": standing.scope,
        "id": standing.id,
        "agent": standing.agent,
        "spent": usd(standing.spent),
        "reserved": usd(standing.reserved),
        "limit": usd(standing.limit) if standing.base else None,
        "raised": usd(standing.account.raised),
    }


def breakers(engine: Engine, moment: Moment) -> View:
    """Return the breakers, those that are not closed first; `left_out` had no room."""
    found = engine.guards.breaker.breakers
    rows = fitting(breaker(engine, one, moment) for one in found)
    return {"breakers": rows, "left_out": len(found) - len(rows)}


def breaker(engine: Engine, found: BreakerStatus, moment: Moment) -> View:
    """Return a breaker as it stands; one that is open is tried again after `wait_s`."""
    view: View = msgspec.structs.asdict(found)
    del view["open_t"]
    open_s = None if found.open_t is None else round(moment.t - found.open_t, 3)
    return {**view, "open_s": open_s, "wait_s": _wait_s(engine, found, open_s)}


def _wait_s(engine: Engine, found: BreakerStatus, open_s: float | None) -> float | None:
    if open_s is None or found.state != "open":
        return None
    return max(round(engine.policy.breaker.open_s - open_s, 3), 0.0)


def anomalies(engine: Engine, moment: Moment) -> View:
    """Return the last findings, newest first, and what holds now, by agent and detector."""
    guard = engine.guards.anomaly
    holding = {agent: guard.holding(agent, moment.t) for agent in guard.agents}
    return {
        "findings": [finding(engine, found) for found in reversed(guard.findings)],
        "holding": {agent: held for agent, held in holding.items() if held},
        "since_human_s": round(guard.since_human_s(moment.t), 3),
    }


def finding(engine: Engine, found: AnomalyFound) -> View:
    """Return a finding; it is `seen` if a person gave a command after it, such as `ack`."""
    return {
        "at": found.at,
        "rule": found.rule,
        "severity": found.severity,
        "message": found.message,
        "agent": found.agent,
        "breaker": found.breaker,
        "seen": engine.guards.anomaly.seen(found),
    }


def types(engine: Engine, _moment: Moment) -> View:
    """Return the known types, other names for them, and what agents proposed and nobody knows."""
    known = Kinds(engine.policy.types, engine.policy.profile).known
    unknown = engine.guards.classify.unknown_types()
    often = sorted(unknown, key=unknown.__getitem__, reverse=True)
    return {
        "types": [_type(known[name]) for name in sorted(known)],
        "same_as": {n: t.same_as for n, t in sorted(engine.policy.types.items()) if t.same_as},
        "unknown": [
            {
                "type": name,
                "count": unknown[name],
                "toml": _toml(name, known if number < MAX_COMPARED else {}),
            }
            for number, name in enumerate(often)
        ],
    }


def _type(kind: Kind) -> View:
    return {
        "type": kind.type,
        "tier": kind.tier,
        "risk": kind.risk,
        "reversibility": kind.reversibility,
        "human": kind.human,
    }


def _toml(name: str, known: Mapping[str, Kind]) -> str:
    """Return the table that makes a type known: the name of one like it, or to be filled in."""
    quoted = json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")
    near = like(name, known)
    table = f'same_as = "{near}"' if near else FILL_IN
    return f"[types.{name if _is_bare(name) else quoted}]\n{table}"
