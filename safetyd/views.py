"""What questions are answered with: plain objects made of the engine's state or audit lines."""

import difflib
import heapq
import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from safetyd.core.engine import Engine
from safetyd.core.events import Decided, Event, Moment, Reported, Withheld
from safetyd.core.guards.breaker import BreakerStatus
from safetyd.core.guards.standing import Standing
from safetyd.core.guards.stop import Stop
from safetyd.core.kinds import Kind, Kinds
from safetyd.core.lines import decode
from safetyd.core.money import usd
from safetyd.core.telemetry import Outcome

HEARD_S: Final = 60.0
MAX_ROWS: Final = 1000  # of budgets and of spending, so that the bus can carry the answer

View = dict[str, object]

_is_bare = re.compile(r"[A-Za-z0-9_-]+\Z").match


def status(engine: Engine, moment: Moment) -> View:
    """Return what is stopped, who has acknowledged it, and who is there."""
    return {
        "at": moment.at,
        "mode": engine.policy.mode,
        "profile": engine.policy.profile,
        "policy": engine.policy_digest,
        "seq": engine.seq,
        "stop": _stop(engine, moment),
        "safe_mode": safe_mode(engine, moment, None),
        "paused": engine.guards.pause.agents,
        "agents": len(engine.keys.agents),
    }


def agents(engine: Engine, moment: Moment) -> View:
    return {
        "agents": [
            {
                "agent": name,
                "key": not agent.keyless,
                "heard_s": round(moment.t - agent.heard_t, 3),
                "allowed": agent.allowed,
                "asked": agent.asked,
                "blocked": agent.blocked,
                "failed": agent.failed,
                "open_actions": list(agent.open_actions),
                "unreported": agent.unreported,
                "stopped": _due(engine.stop.stops, name) > 0,
                **_kernel(engine, moment, name),
                "pauses": [pause.source for pause in engine.guards.pause.pauses(name)],
            }
            for name, agent in sorted(engine.keys.agents.items())
        ]
    }


def _kernel(engine: Engine, moment: Moment, agent: str) -> View:
    found = engine.guards.safe_mode.status(agent, moment.t)
    return {"state": found.state, "consecutive_errors": found.consecutive_errors}


def safe_mode(engine: Engine, moment: Moment, agent: str | None) -> View:
    """Return how one agent's kernel is or, if None, the most restricted of all."""
    return msgspec.structs.asdict(engine.guards.safe_mode.status(agent, moment.t))


def budgets(engine: Engine, moment: Moment) -> View:
    """Return what is spent and set aside, the most used first, and on what it was spent.

    Amounts are US dollars; a limit of None is none. `left_out` are rows beyond the bounds.
    """
    standings = list(engine.guards.budget.standings(moment.at))
    spending = list(engine.guards.budget.spending())
    most_used = heapq.nlargest(MAX_ROWS, standings, key=lambda s: s.account.used)
    dearest = heapq.nlargest(MAX_ROWS, spending, key=lambda spend: spend.spent)
    return {
        "budgets": [_budget(standing) for standing in most_used],
        "spending": [{**spend._asdict(), "spent": usd(spend.spent)} for spend in dearest],
        "left_out": len(standings) + len(spending) - len(most_used) - len(dearest),
    }


def _budget(standing: Standing) -> View:
    return {
        "scope": standing.scope,
        "id": standing.id,
        "agent": standing.agent,
        "spent": usd(standing.spent),
        "reserved": usd(standing.reserved),
        "limit": usd(standing.limit) if standing.base else None,
    }


def breakers(engine: Engine, moment: Moment) -> View:
    """Return every breaker, those that are not closed first."""
    return {"breakers": [_breaker(found, moment) for found in engine.guards.breaker.breakers]}


def _breaker(found: BreakerStatus, moment: Moment) -> View:
    view: View = msgspec.structs.asdict(found)
    del view["open_t"]
    view["open_s"] = None if found.open_t is None else round(moment.t - found.open_t, 3)
    return view


def anomalies(engine: Engine, moment: Moment) -> View:
    """Return the last findings, newest first, and what holds now, by agent and detector."""
    guard = engine.guards.anomaly
    holding = {agent: guard.holding(agent, moment.t) for agent in guard.agents}
    return {
        "findings": [
            {
                "at": found.at,
                "rule": found.rule,
                "severity": found.severity,
                "message": found.message,
                "agent": found.agent,
                "breaker": found.breaker,
            }
            for found in reversed(guard.findings)
        ],
        "holding": {agent: held for agent, held in holding.items() if held},
        "since_human_s": round(guard.since_human_s(moment.t), 3),
    }


def types(engine: Engine, _moment: Moment) -> View:
    """Return the known types, and those that agents proposed though nobody knows them."""
    known = Kinds(engine.policy.types, engine.policy.profile).known
    unknown = engine.guards.classify.unknown_types()
    return {
        "types": [_type(known[name]) for name in sorted(known)],
        "unknown": [
            {"type": name, "count": count, "toml": _toml(name, known)}
            for name, count in sorted(unknown.items(), key=lambda item: -item[1])
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
    """Return the table that makes a type known: another name for one like it, or asked about."""
    quoted = json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")
    near = difflib.get_close_matches(name, known, n=1)
    line = f'same_as = "{near[0]}"' if near else 'tier = "requires_permission"'
    return f"[types.{name if _is_bare(name) else quoted}]\n{line}"


def _stop(engine: Engine, moment: Moment) -> View:
    heard = {
        name: agent
        for name, agent in engine.keys.agents.items()
        if moment.t - agent.heard_t <= HEARD_S
    }
    stops = engine.stop.stops
    due = {name: _due(stops, name) for name in heard}
    return {
        "active": bool(stops),
        "epoch": engine.stop.epoch,
        "stops": [msgspec.to_builtins(stop) for stop in stops],
        "acknowledged": [n for n, a in heard.items() if 0 < due[n] <= a.stop_epoch],
        "silent": [n for n, a in heard.items() if a.stop_epoch < due[n]],
        "open_actions": sum(
            len(a.open_actions) + a.unreported for a in engine.keys.agents.values()
        ),
    }


def _due(stops: Sequence[Stop], agent: str) -> int:
    """Return the epoch that an agent has to acknowledge, 0 if nothing stops it."""
    return max((stop.epoch for stop in stops if stop.agent in {None, agent}), default=0)


def explain(lines: Sequence[bytes], id_: str) -> View | None:
    """Return what was decided about a proposal, why, and how it went; None if nothing was."""
    decided: list[View] = []
    outcomes: list[View] = []
    withheld: list[View] = []
    for line in lines:
        match _read(line):
            case Decided() as event if event.id == id_:
                decided.append(_decided(event))
            case Reported(telemetry=Outcome(id=named) as outcome) as event if named == id_:
                outcomes.append(_outcome(event, outcome))
            case Withheld() as event if event.id == id_:
                withheld.append({"seq": event.seq, "at": event.at, "why": event.why})
    if not decided:
        return None
    return {"id": id_, "decisions": decided, "outcomes": outcomes, "withheld": withheld}


def _read(line: bytes) -> Event | None:
    """Return None for a line that says nothing: a file's first, or one that was damaged."""
    try:
        return decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _outcome(event: Reported, outcome: Outcome) -> View:
    return {
        "seq": event.seq,
        "at": event.at,
        "agent": event.agent,
        "ok": outcome.ok,
        "error": outcome.error,
    }


def _decided(event: Decided) -> View:
    return {
        "seq": event.seq,
        "at": event.at,
        "agent": event.agent,
        "type": event.type,
        "tier": event.tier,
        "risk": event.risk,
        "reversibility": event.reversibility,
        "decision": event.decision,
        "first": event.first,
        "digest": event.digest,
        "verdicts": event.verdicts,
        "proposal": event.proposal,
    }
