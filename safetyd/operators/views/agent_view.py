"""The list of agents: their decisions and limits."""

import heapq
from collections import Counter
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
from safetyd.operators.views.guard_view import budget, pending_costs
from safetyd.operators.views.paging import PAGE_BYTES, SLICE, in_slices, size_of

FOREMOST: Final = 10  # so that `status` fits on a screen
NEAR: Final = 0.8  # used share of tokens or iterations; budget.warn_ratio applies to money
RECENT_S: Final = 3600.0
SHOWN: Final = 64  # how many open actions are listed; others are only counted

Due = Callable[[str], int]
Rank = Callable[[str], tuple[object, ...]]


def agents(
    state: EngineState, moment: Moment, wanted: AgentsQuestion
) -> Generator[None, Moment, AgentsAnswer]:
    """Return the matching agents: at most `limit`, and as many as fit into an answer."""
    names = yield from _wanted(state, moment, wanted)
    total = len(names)
    names = [name for name in names if name > wanted.after] if wanted.after else names
    due, page, room = due_by(state.stop.stops), list[AgentSeen](), PAGE_BYTES
    more = len(names) > wanted.offset + wanted.limit
    for number, name in enumerate(names[wanted.offset :][: wanted.limit], 1):
        if number % SLICE == 0:
            moment = yield
        if name not in state.keys.agents:
            continue  # forgotten in the meantime
        seen = _seen(state, moment, name, due)
        room -= size_of(seen)
        if room < 0:
            more = True
            break
        page.append(seen)
    return AgentsAnswer(ok=True, agents=tuple(page), more=more, total=total)


def _wanted(
    state: EngineState, moment: Moment, wanted: AgentsQuestion
) -> Generator[None, Moment, list[str]]:
    """Return the names of the matching agents in order."""
    known, text = state.keys.agents, wanted.text.casefold()
    chosen = (
        name
        for name, agent in known.items()
        if (not text or text in name.casefold())
        and (wanted.key is None or wanted.key is not agent.keyless)
    )
    names = sorted(chosen, reverse=wanted.descending and wanted.sort == "name")
    if wanted.state is not None or wanted.sort != "name":
        names = yield from _ordered(state, moment, wanted, names)
    return names


def _ordered(
    state: EngineState, moment: Moment, wanted: AgentsQuestion, names: Sequence[str]
) -> Generator[None, Moment, list[str]]:
    """Sort and filter agents by their state; ties stay sorted by name."""
    due, rank = due_by(state.stop.stops), _RANKS[wanted.sort]

    def ranked(name: str, moment: Moment) -> Iterator[tuple[str, float]]:
        known = name in state.keys.agents  # it may have been forgotten in the meantime
        if known and wanted.state in {None, _state(state, moment, name, due)}:
            yield name, rank(state, moment, name, due)

    ranks = dict((yield from in_slices(names, ranked, moment)))
    return sorted(ranks, key=ranks.__getitem__, reverse=wanted.descending)


def foremost(state: EngineState, moment: Moment) -> Generator[None, Moment, tuple[AgentRow, ...]]:
    """Return the agents that need attention most.

    Stopped agents come first, then agents that are paused, in safe mode, near a limit, or have
    recent anomalies. Ties are sorted by the time of the last message.
    """
    known, rank = state.keys.agents, _rank(state, moment)

    def ranked(name: str, _moment: Moment) -> Iterator[tuple[str, tuple[object, ...]]]:
        if name in known:
            yield name, rank(name)

    ranks = dict((yield from in_slices(tuple(known), ranked, moment)))
    moment = yield
    names = heapq.nlargest(FOREMOST, ranks, key=ranks.__getitem__)
    due = due_by(state.stop.stops)
    return tuple(row_of(state, moment, name, due) for name in names if name in known)


def states(state: EngineState, moment: Moment) -> Generator[None, Moment, dict[AgentState, int]]:
    """Return how many agents are in each state, the most restrictive first."""
    known, due = state.keys.agents, due_by(state.stop.stops)

    def looked(name: str, moment: Moment) -> Iterator[AgentState]:
        if name in known:
            yield _state(state, moment, name, due)

    counts = Counter((yield from in_slices(tuple(known), looked, moment)))
    return {each: counts[each] for each in _STATES if counts[each]}


def due_by(stops: Sequence[Stop]) -> Due:
    """Return a function that returns the stop epoch an agent must acknowledge, or 0."""
    own: dict[str | None, int] = {}
    for stop in stops:
        own[stop.agent] = max(stop.epoch, own.get(stop.agent, 0))
    common = own.get(None, 0)
    return lambda agent: max(common, own.get(agent, 0))


def _seen(state: EngineState, moment: Moment, name: str, due: Due) -> AgentSeen:
    """Return an agent with its newest open actions."""
    row, newest = row_of(state, moment, name, due), state.actions.under_way(name)[-SHOWN:]
    return AgentSeen(**msgspec.structs.asdict(row), open_actions=newest)


def row_of(state: EngineState, moment: Moment, name: str, due: Due) -> AgentRow:
    """Return the current state of a known agent."""
    guards, t, agent = state.guards, moment.t, state.keys.agents[name]
    kernel, standings = guards.safe_mode.status(name, t), _standings(state, moment, name)
    near, bucket = dict(_near(state, name, t, standings)), guards.rate.agent_bucket(name, t)
    return AgentRow(
        agent=name,
        key=not agent.keyless,
        heard_s=round(t - agent.heard_t, 3),
        allowed=agent.allowed,
        asked=agent.asked,
        blocked=agent.blocked,
        failed=agent.failed,
        unreported=max(len(state.actions.under_way(name)) - SHOWN, 0),
        stopped=due(name) > 0,
        pauses=tuple(pause.source for pause in guards.pause.pauses(name)),
        state=_state(state, moment, name, due),
        kernel=kernel.state,
        consecutive_errors=kernel.consecutive_errors,
        max_consecutive_errors=kernel.threshold,
        tokens=round(bucket.tokens, 1),
        burst=bucket.burst,
        iterations=guards.iterations.most(name),
        max_iterations=guards.iterations.limit(name),
        budgets=tuple(budget(one, pending_costs(state, name)) for one in standings),
        anomalies=guards.anomaly.holding(name, t),
        near=tuple(near),
        reached=tuple(limit for limit in near if near[limit]),
        action=_action(state, moment, name),
        last=state.records.last_decisions.of(name),
    )


def _state(state: EngineState, moment: Moment, name: str, due: Due) -> AgentState:
    if due(name) > 0:
        return "stopped"
    if state.guards.pause.pauses(name):
        return "paused"
    return cast("AgentState", state.guards.safe_mode.status(name, moment.t).state)


def _action(state: EngineState, moment: Moment, name: str) -> CurrentAction | None:
    newest = state.actions.newest(name)
    if newest is None:
        return None
    id_, action = newest
    return CurrentAction(id=id_, type=action.type, since_s=round(moment.t - action.t, 3))


def _used_today(state: EngineState, moment: Moment, name: str) -> int:
    return state.guards.budget.day_of(name, moment.at).account.used


_STATES: Final[tuple[AgentState, ...]] = get_args(AgentState)
_RANKS: Final[Mapping[AgentOrder, Callable[[EngineState, Moment, str, Due], float]]] = {
    "name": lambda _state, _moment, _name, _due: 0,  # already sorted by name
    "state": lambda state, moment, name, due: _STATES.index(_state(state, moment, name, due)),
    "errors": lambda state, _moment, name, _due: state.guards.safe_mode.errors(name),
    "rate": lambda state, moment, name, _due: state.guards.rate.agent_bucket(name, moment.t).tokens,
    "money": lambda state, moment, name, _due: _used_today(state, moment, name),
    "heard": lambda state, _moment, name, _due: -state.keys.agents[name].heard_t,
    "blocked": lambda state, _moment, name, _due: state.keys.agents[name].blocked,
}


def _standings(state: EngineState, moment: Moment, name: str) -> Sequence[Standing]:
    """Return the agent's most used chain and session budgets, and its daily budget."""
    guard = state.guards.budget
    return (*guard.fullest(name, moment.t), guard.day_of(name, moment.at))


def _near(
    state: EngineState, name: str, t: float, standings: Sequence[Standing]
) -> Iterator[tuple[Near, bool]]:
    """Yield the limits that an agent has nearly reached, with True if it has reached them."""
    guards = state.guards
    if _nearly_held(state, name, t):
        yield "errors", False
    bucket = guards.rate.agent_bucket(name, t)
    if bucket.tokens <= bucket.burst * (1.0 - NEAR):
        yield "tokens", bucket.tokens < 1.0
    rounds, most = guards.iterations.most(name), guards.iterations.limit(name)
    if rounds and rounds >= most * NEAR:
        yield "iterations", rounds >= most
    warn_ratio = state.policy.budget.warn_ratio
    for standing in standings:
        if standing.base and standing.account.used >= standing.limit * warn_ratio:
            yield standing.scope, standing.refuses(0)


def _nearly_held(state: EngineState, name: str, t: float) -> bool:
    """Return True if one more error puts the agent into safe mode."""
    guard, most = state.guards.safe_mode, state.policy.safe_mode.max_consecutive_errors
    errors = guard.errors(name)
    return 0 < errors >= most - 1 and not any(guard.holds(name, t))


def _rank(state: EngineState, moment: Moment) -> Rank:
    guards = state.guards
    stopped = {stop.agent for stop in state.stop.stops}
    held = set(guards.safe_mode.status(None, moment.t).agents)
    unusual = {found.agent for found in guards.anomaly.findings if moment.t - found.t < RECENT_S}

    def rank(name: str) -> tuple[object, ...]:
        return (
            name in stopped,
            bool(guards.pause.pauses(name)),
            name in held,
            any(_near(state, name, moment.t, _standings(state, moment, name))),
            name in unusual or bool(guards.anomaly.holding(name, moment.t)),
            state.keys.agents[name].heard_t,
        )

    return rank
