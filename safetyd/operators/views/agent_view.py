"""Who is there, what each agent did, and how near it is to its limits."""

import heapq
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final

from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Moment
from safetyd.core.guards.budget.limits import Standing
from safetyd.core.guards.keys import KnownAgent
from safetyd.core.guards.stop import Stop
from safetyd.journal.mailbox import Slices
from safetyd.operators.views.guard_view import budget
from safetyd.operators.views.paging import PAGE_BYTES, View, size_of

FOREMOST: Final = 10  # a screenful, with all else that `status` says
NEAR: Final = 0.8  # of tokens and iterations; of money it is budget.warn_ratio
RECENT_S: Final = 3600.0
SLICE: Final = 50  # agents, in about a millisecond
SHOWN: Final = 64  # of the actions without an outcome; of more, only the number

Due = Callable[[str], int]
Rank = Callable[[str], tuple[object, ...]]


def agents(engine: Engine, moment: Moment, limit: int, after: str) -> Slices:
    """Return the agents whose names come after `after`, in the order of names.

    At most `limit`, and no more than an answer can carry; `more` says that others follow.
    """
    names = sorted(name for name in engine.keys.agents if name > after)
    due, page, room = due_by(engine.stop.stops), list[View](), PAGE_BYTES
    for number, name in enumerate(names[:limit], 1):
        if number % SLICE == 0:
            moment = yield
        if name not in engine.keys.agents:
            continue  # forgotten meanwhile
        row = {**_row(engine, moment, name, due), "open_actions": _open(engine, name)}
        room -= size_of(row)
        if room < 0:
            return {"agents": page, "more": True}
        page.append(row)
    return {"agents": page, "more": len(names) > limit}


def _open(engine: Engine, name: str) -> list[str]:
    """Return the newest of an agent's actions that have no outcome yet."""
    return list(engine.actions.under_way(name)[-SHOWN:])


def foremost(engine: Engine, moment: Moment) -> Generator[None, Moment, list[View]]:
    """Return those that matter most: stopped, paused, in safe mode, near a limit, unusual of late.

    Of equals those come first that were heard last.
    """
    known, rank = engine.keys.agents, _rank(engine, moment)
    ranks: dict[str, tuple[object, ...]] = {}
    for number, name in enumerate(tuple(known), 1):
        if number % SLICE == 0:
            moment = yield
        if name in known:
            ranks[name] = rank(name)
    names = heapq.nlargest(FOREMOST, ranks, key=ranks.__getitem__)
    due = due_by(engine.stop.stops)
    return [_row(engine, moment, name, due) for name in names if name in known]


def due_by(stops: Sequence[Stop]) -> Due:
    """Return what gives the epoch that an agent has to acknowledge, 0 if nothing stops it."""
    own: dict[str | None, int] = {}
    for stop in stops:
        own[stop.agent] = max(stop.epoch, own.get(stop.agent, 0))
    common = own.get(None, 0)
    return lambda agent: max(common, own.get(agent, 0))


def _row(engine: Engine, moment: Moment, name: str, due: Due) -> View:
    guards, t = engine.guards, moment.t
    kernel, standings = guards.safe_mode.status(name, t), _standings(engine, moment, name)
    stopped, pauses = due(name) > 0, [pause.source for pause in guards.pause.pauses(name)]
    near = dict(_near(engine, name, t, standings))
    return {
        "agent": name,
        **_counts(engine.keys.agents[name], t),
        "unreported": max(len(engine.actions.under_way(name)) - SHOWN, 0),
        "stopped": stopped,
        "pauses": pauses,
        "state": "stopped" if stopped else "paused" if pauses else kernel.state,
        "kernel": kernel.state,
        "consecutive_errors": kernel.consecutive_errors,
        "max_consecutive_errors": kernel.threshold,
        "tokens": round(guards.rate.agent_level(name, t), 1),
        "burst": guards.rate.agent_burst(name),
        "iterations": guards.iterations.most(name),
        "max_iterations": guards.iterations.limit(name),
        "budgets": [budget(standing) for standing in standings],
        "anomalies": guards.anomaly.holding(name, t),
        "near": list(near),
        "reached": [limit for limit in near if near[limit]],
    }


def _counts(agent: KnownAgent, t: float) -> View:
    return {
        "key": not agent.keyless,
        "heard_s": round(t - agent.heard_t, 3),
        "allowed": agent.allowed,
        "asked": agent.asked,
        "blocked": agent.blocked,
        "failed": agent.failed,
    }


def _standings(engine: Engine, moment: Moment, name: str) -> Sequence[Standing]:
    """Return the fullest chain, the fullest session, and the agent's part of the day."""
    guard = engine.guards.budget
    return (*guard.fullest(name, moment.t), guard.day_of(name, moment.at))


def _near(
    engine: Engine, name: str, t: float, standings: Sequence[Standing]
) -> Iterator[tuple[str, bool]]:
    """Yield the limits that an agent is near, and whether it has reached them."""
    guards = engine.guards
    if _nearly_held(engine, name, t):
        yield "errors", False
    level = guards.rate.agent_level(name, t)
    if level <= guards.rate.agent_burst(name) * (1.0 - NEAR):
        yield "tokens", level < 1.0
    rounds, most = guards.iterations.most(name), guards.iterations.limit(name)
    if rounds and rounds >= most * NEAR:
        yield "iterations", rounds >= most
    warn_ratio = engine.policy.budget.warn_ratio
    for standing in standings:
        if standing.base and standing.account.used >= standing.limit * warn_ratio:
            yield standing.scope, standing.refuses(0)


def _nearly_held(engine: Engine, name: str, t: float) -> bool:
    """Say whether one more error puts an agent in safe mode; in it, errors are not counted."""
    guard, most = engine.guards.safe_mode, engine.policy.safe_mode.max_consecutive_errors
    errors = guard.errors(name)
    return 0 < errors >= most - 1 and not any(guard.holds(name, t))


def _rank(engine: Engine, moment: Moment) -> Rank:
    guards = engine.guards
    stopped = {stop.agent for stop in engine.stop.stops}
    held = set(guards.safe_mode.status(None, moment.t).agents)
    unusual = {found.agent for found in guards.anomaly.findings if moment.t - found.t < RECENT_S}

    def rank(name: str) -> tuple[object, ...]:
        return (
            name in stopped,
            bool(guards.pause.pauses(name)),
            name in held,
            any(_near(engine, name, moment.t, _standings(engine, moment, name))),
            name in unusual or bool(guards.anomaly.holding(name, moment.t)),
            engine.keys.agents[name].heard_t,
        )

    return rank
