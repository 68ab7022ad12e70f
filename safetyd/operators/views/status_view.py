"""How everything is: what is stopped and held back, and the agents that matter most."""

from itertools import islice
from typing import Final

import msgspec

from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Moment
from safetyd.core.guards.anomaly.findings import LEVELS
from safetyd.journal.mailbox import Slices
from safetyd.operators.views.agent_view import RECENT_S, due_by, foremost
from safetyd.operators.views.guard_view import breaker, budget, finding
from safetyd.operators.views.paging import PAGE_BYTES, View, fitting

HEARD_S: Final = 60.0
MAX_SHOWN: Final = 5  # of pauses, breakers and kernels in safe mode
FINDINGS_BYTES: Final = PAGE_BYTES // 4


def status(engine: Engine, moment: Moment) -> Slices:
    """Return what is stopped, who has acknowledged it, who is there, and what guards hold back."""
    most = yield from foremost(engine, moment)
    moment = yield
    return {
        "at": moment.at,
        "mode": engine.policy.mode,
        "profile": engine.policy.profile,
        "policy": engine.policy_digest,
        "seq": engine.seq,
        "stop": _stop(engine, moment),
        "safe_mode": safe_mode(engine, moment, None),
        "paused": engine.guards.pause.agents,
        "pauses": _pauses(engine),
        "today": budget(next(engine.guards.budget.standings(moment.at))),
        "keyless_today": _keyless(engine, moment),
        "warn_ratio": engine.policy.budget.warn_ratio,
        **_tripped(engine, moment),
        **_findings(engine, moment),
        "requests": _requests(engine, moment),
        "wide_grants": engine.grants.wide,
        "agents": len(engine.keys.agents),
        "foremost": most,
    }


def safe_mode(engine: Engine, moment: Moment, agent: str | None) -> View:
    """Return how one agent's kernel is or, if None, the most restricted of all.

    `holds` are the first few that are in safe mode: since when, by whom and why.
    """
    guard = engine.guards.safe_mode
    holds = islice(guard.holds(agent, moment.t), MAX_SHOWN)
    return {
        **msgspec.structs.asdict(guard.status(agent, moment.t)),
        "holds": [msgspec.structs.asdict(hold) for hold in holds],
    }


def _keyless(engine: Engine, moment: Moment) -> View | None:
    """Return the share of the day that agents without a key have, if they have one."""
    found = engine.guards.budget.raisable("keyless", "", moment.at)
    return budget(found[0]) if found else None


def _pauses(engine: Engine) -> list[View]:
    """Return what pauses the agents that are paused longest."""
    guard = engine.guards.pause
    return [
        {"agent": agent, **msgspec.structs.asdict(pause)}
        for agent in guard.agents[:MAX_SHOWN]
        for pause in guard.pauses(agent)
    ]


def _requests(engine: Engine, moment: Moment) -> View:
    """Return how many requests wait for a person, and for how long the oldest has."""
    oldest = next(engine.approvals.pending(), None)
    waited_s = 0.0 if oldest is None else (moment.at - oldest.asked.at).total_seconds()
    return {
        "pending": engine.approvals.pending_count(),
        "oldest_s": round(max(waited_s, 0.0), 1),
        "channels": list(engine.policy.telling.channels),
        "down": engine.outbox.down,
        "unnotified": engine.outbox.unnotified(moment.at),
    }


def _tripped(engine: Engine, moment: Moment) -> View:
    """Return the breakers that are not closed, longest open first, and how many there are."""
    found = engine.guards.breaker.tripped
    shown = [breaker(engine, one, moment) for one in found[:MAX_SHOWN]]
    return {"breakers": shown, "tripped": len(found)}


def _findings(engine: Engine, moment: Moment) -> View:
    """Return the anomalies of the last hour, the worst and newest first, and how many there are."""
    newest = reversed(engine.guards.anomaly.findings)
    recent = [found for found in newest if moment.t - found.t < RECENT_S]
    recent.sort(key=lambda found: LEVELS.index(found.severity), reverse=True)
    rows = fitting((finding(engine, found) for found in recent), FINDINGS_BYTES)
    return {"findings": rows, "found": len(recent)}


def _stop(engine: Engine, moment: Moment) -> View:
    heard = {
        name: agent
        for name, agent in engine.keys.agents.items()
        if moment.t - agent.heard_t <= HEARD_S
    }
    stops = engine.stop.stops
    due_of = due_by(stops)
    due = {name: due_of(name) for name in heard}
    return {
        "active": bool(stops),
        "epoch": engine.stop.epoch,
        "stops": [msgspec.to_builtins(stop) for stop in stops],
        "acknowledged": [n for n, a in heard.items() if 0 < due[n] <= a.stop_epoch],
        "silent": [n for n, a in heard.items() if a.stop_epoch < due[n]],
        "open_actions": engine.actions.total,
    }
