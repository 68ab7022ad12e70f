"""Who is there, what each agent did, and how near it is to its limits."""

import heapq
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Final, cast, get_args

import msgspec

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.guards.budget.limits import Standing
from safetyd.core.guards.stop import Stop
from safetyd.operators.contract.agent_contract import (
    AgentOrder,
    AgentRow,
    AgentsAnswer,
    AgentSeen,
    AgentsQuestion,
    AgentState,
    CurrentAction,
    Near,
)
from safetyd.operators.contract.hold_contract import PauseSource
from safetyd.operators.views.guard_view import budget
from safetyd.operators.views.paging import PAGE_BYTES, size_of

FOREMOST: Final = 10  # a screenful, with all else that `status` says
NEAR: Final = 0.8  # of tokens and iterations; of money it is budget.warn_ratio
RECENT_S: Final = 3600.0
SLICE: Final = 50  # agents, in about a millisecond
SHOWN: Final = 64  # of the actions without an outcome; of more, only the number

Due = Callable[[str], int]
Rank = Callable[[str], tuple[object, ...]]


def agents(
    engine: EngineState, moment: Moment, wanted: AgentsQuestion
) -> Generator[None, Moment, AgentsAnswer]:
    """Return the agents that are wanted: at most `limit`, and no more than an answer can carry."""
    names = yield from _wanted(engine, moment, wanted)
    total = len(names)
    names = [name for name in names if name > wanted.after] if wanted.after else names
    due, page, room = due_by(engine.stop.stops), list[AgentSeen](), PAGE_BYTES
    more = len(names) > wanted.offset + wanted.limit
    for number, name in enumerate(names[wanted.offset :][: wanted.limit], 1):
        if number % SLICE == 0:
            moment = yield
        if name not in engine.keys.agents:
            continue  # forgotten meanwhile
        seen = _seen(engine, moment, name, due)
        room -= size_of(seen)
        if room < 0:
            more = True
            break
        page.append(seen)
    return AgentsAnswer(ok=True, agents=tuple(page), more=more, total=total)


def _wanted(
    engine: EngineState, moment: Moment, wanted: AgentsQuestion
) -> Generator[None, Moment, list[str]]:
    """Return the names of the agents that are wanted, in their order."""
    known, text = engine.keys.agents, wanted.text.casefold()
    chosen = (
        name
        for name, agent in known.items()
        if (not text or text in name.casefold())
        and (wanted.key is None or wanted.key is not agent.keyless)
    )
    names = sorted(chosen, reverse=wanted.descending and wanted.sort == "name")
    if wanted.state is not None or wanted.sort != "name":
        names = yield from _ordered(engine, moment, wanted, names)
    return names


def _ordered(
    engine: EngineState, moment: Moment, wanted: AgentsQuestion, names: Sequence[str]
) -> Generator[None, Moment, list[str]]:
    """Look at each of these agents; equals stay in the order of names."""
    due, rank = due_by(engine.stop.stops), _RANKS[wanted.sort]
    ranks: dict[str, float] = {}
    for number, name in enumerate(names, 1):
        if number % SLICE == 0:
            moment = yield
        if name not in engine.keys.agents:
            continue  # forgotten meanwhile
        if wanted.state in {None, _state(engine, moment, name, due)}:
            ranks[name] = rank(engine, moment, name, due)
    return sorted(ranks, key=ranks.__getitem__, reverse=wanted.descending)


def foremost(engine: EngineState, moment: Moment) -> Generator[None, Moment, tuple[AgentRow, ...]]:
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
    return tuple(row_of(engine, moment, name, due) for name in names if name in known)


def states(engine: EngineState, moment: Moment) -> Generator[None, Moment, dict[AgentState, int]]:
    """Return how many agents are in each state; what holds an agent back most comes first."""
    known, due = engine.keys.agents, due_by(engine.stop.stops)
    counts = dict.fromkeys(_STATES, 0)
    for number, name in enumerate(tuple(known), 1):
        if number % SLICE == 0:
            moment = yield
        if name in known:
            counts[_state(engine, moment, name, due)] += 1
    return {state: count for state, count in counts.items() if count}


def due_by(stops: Sequence[Stop]) -> Due:
    """Return what gives the epoch that an agent has to acknowledge, 0 if nothing stops it."""
    own: dict[str | None, int] = {}
    for stop in stops:
        own[stop.agent] = max(stop.epoch, own.get(stop.agent, 0))
    common = own.get(None, 0)
    return lambda agent: max(common, own.get(agent, 0))


def _seen(engine: EngineState, moment: Moment, name: str, due: Due) -> AgentSeen:
    """Return an agent with the newest of its actions that have no outcome yet."""
    row, newest = row_of(engine, moment, name, due), engine.actions.under_way(name)[-SHOWN:]
    return AgentSeen(**msgspec.structs.asdict(row), open_actions=newest)


def row_of(engine: EngineState, moment: Moment, name: str, due: Due) -> AgentRow:
    """Return an agent that is known, as it stands."""
    guards, t, agent = engine.guards, moment.t, engine.keys.agents[name]
    kernel, standings = guards.safe_mode.status(name, t), _standings(engine, moment, name)
    sources = tuple(pause.source for pause in guards.pause.pauses(name))
    near = dict(_near(engine, name, t, standings))
    return AgentRow(
        agent=name,
        key=not agent.keyless,
        heard_s=round(t - agent.heard_t, 3),
        allowed=agent.allowed,
        asked=agent.asked,
        blocked=agent.blocked,
        failed=agent.failed,
        unreported=max(len(engine.actions.under_way(name)) - SHOWN, 0),
        stopped=due(name) > 0,
        pauses=cast("tuple[PauseSource, ...]", sources),
        state=_state(engine, moment, name, due),
        kernel=kernel.state,
        consecutive_errors=kernel.consecutive_errors,
        max_consecutive_errors=kernel.threshold,
        tokens=round(guards.rate.agent_level(name, t), 1),
        burst=guards.rate.agent_burst(name),
        iterations=guards.iterations.most(name),
        max_iterations=guards.iterations.limit(name),
        budgets=tuple(budget(one, guards.budget.pending(name)) for one in standings),
        anomalies=guards.anomaly.holding(name, t),
        near=tuple(near),
        reached=tuple(limit for limit in near if near[limit]),
        action=_action(engine, moment, name),
        last=engine.records.last_decisions.of(name),
    )


def _state(engine: EngineState, moment: Moment, name: str, due: Due) -> AgentState:
    if due(name) > 0:
        return "stopped"
    if engine.guards.pause.pauses(name):
        return "paused"
    return cast("AgentState", engine.guards.safe_mode.status(name, moment.t).state)


def _action(engine: EngineState, moment: Moment, name: str) -> CurrentAction | None:
    newest = engine.actions.newest(name)
    if newest is None:
        return None
    id_, action = newest
    return CurrentAction(id=id_, type=action.type, since_s=round(moment.t - action.t, 3))


def _used_today(engine: EngineState, moment: Moment, name: str) -> int:
    return engine.guards.budget.day_of(name, moment.at).account.used


_STATES: Final[tuple[AgentState, ...]] = get_args(AgentState)
_RANKS: Final[Mapping[AgentOrder, Callable[[EngineState, Moment, str, Due], float]]] = {
    "name": lambda _engine, _moment, _name, _due: 0,  # they are in this order already
    "state": lambda engine, moment, name, due: _STATES.index(_state(engine, moment, name, due)),
    "errors": lambda engine, _moment, name, _due: engine.guards.safe_mode.errors(name),
    "rate": lambda engine, moment, name, _due: engine.guards.rate.agent_level(name, moment.t),
    "money": lambda engine, moment, name, _due: _used_today(engine, moment, name),
    "heard": lambda engine, _moment, name, _due: -engine.keys.agents[name].heard_t,
    "blocked": lambda engine, _moment, name, _due: engine.keys.agents[name].blocked,
}


def _standings(engine: EngineState, moment: Moment, name: str) -> Sequence[Standing]:
    """Return the fullest chain, the fullest session, and the agent's part of the day."""
    guard = engine.guards.budget
    return (*guard.fullest(name, moment.t), guard.day_of(name, moment.at))


def _near(
    engine: EngineState, name: str, t: float, standings: Sequence[Standing]
) -> Iterator[tuple[Near, bool]]:
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


def _nearly_held(engine: EngineState, name: str, t: float) -> bool:
    """Say whether one more error puts an agent in safe mode; in it, errors are not counted."""
    guard, most = engine.guards.safe_mode, engine.policy.safe_mode.max_consecutive_errors
    errors = guard.errors(name)
    return 0 < errors >= most - 1 and not any(guard.holds(name, t))


def _rank(engine: EngineState, moment: Moment) -> Rank:
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
