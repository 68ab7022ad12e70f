"""What questions are answered with: plain objects made of the engine's state or audit lines."""

from collections.abc import Sequence
from typing import Final

import msgspec

from safetyd.core.engine import Engine
from safetyd.core.events import Decided, Event, Moment, Reported, Withheld
from safetyd.core.guards.stop import Stop
from safetyd.core.lines import decode
from safetyd.core.telemetry import Outcome

HEARD_S: Final = 60.0

View = dict[str, object]


def status(engine: Engine, moment: Moment) -> View:
    """Return what is stopped, who has acknowledged it, and who is there."""
    return {
        "at": moment.at,
        "mode": engine.policy.mode,
        "profile": engine.policy.profile,
        "policy": engine.policy_digest,
        "seq": engine.seq,
        "stop": _stop(engine, moment),
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
            }
            for name, agent in sorted(engine.keys.agents.items())
        ]
    }


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
