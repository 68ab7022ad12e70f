"""Who is there, what each agent did, and how near it is to its limits."""

import heapq
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final, Literal, cast

import msgspec

from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Moment
from safetyd.core.guards.budget.limits import Scope, Standing
from safetyd.core.guards.kernel import State
from safetyd.core.guards.stop import Stop
from safetyd.operators.replies import Done
from safetyd.operators.views.guard_view import Budget, budget
from safetyd.operators.views.paging import PAGE_BYTES, size_of

FOREMOST: Final = 10  # a screenful, with all else that `status` says
NEAR: Final = 0.8  # of tokens and iterations; of money it is budget.warn_ratio
RECENT_S: Final = 3600.0
SLICE: Final = 50  # agents, in about a millisecond
SHOWN: Final = 64  # of the actions without an outcome; of more, only the number

Due = Callable[[str], int]
Rank = Callable[[str], tuple[object, ...]]
# Its kernel's, if it is neither stopped nor paused.
AgentState = Literal[
    "stopped", "paused", "ready", "planning", "executing", "evaluating", "safe_mode"
]
PauseSource = Literal["operator", "anomaly", "budget"]
Near = Literal["errors", "tokens", "iterations"] | Scope


class AgentRow(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent did, what holds it back, and how near it is to its limits."""

    agent: str
    key: bool
    heard_s: float
    allowed: int
    asked: int
    blocked: int
    failed: int
    unreported: int  # open actions that are only counted
    stopped: bool
    pauses: tuple[PauseSource, ...]
    state: AgentState
    kernel: State
    consecutive_errors: int
    max_consecutive_errors: int
    tokens: float  # of `burst`, that its rate has left
    burst: float
    iterations: int  # of the live session that has had most
    max_iterations: int
    budgets: tuple[Budget, ...]  # the fullest chain and session, and its part of the day
    anomalies: dict[str, int]  # that hold now, and how often each was seen to
    near: tuple[Near, ...]
    reached: tuple[Near, ...]  # of these


class AgentSeen(AgentRow, frozen=True, kw_only=True):
    open_actions: tuple[str, ...]


class AgentsAnswer(Done, frozen=True, kw_only=True):
    """In the order of names. If `more` follow, ask again `after` the last one."""

    agents: tuple[AgentSeen, ...]
    more: bool


def agents(
    engine: Engine, moment: Moment, limit: int, after: str
) -> Generator[None, Moment, AgentsAnswer]:
    """Return the agents whose names come after `after`.

    At most `limit`, and no more than an answer can carry.
    """
    names = sorted(name for name in engine.keys.agents if name > after)
    due, page, room = due_by(engine.stop.stops), list[AgentSeen](), PAGE_BYTES
    for number, name in enumerate(names[:limit], 1):
        if number % SLICE == 0:
            moment = yield
        if name not in engine.keys.agents:
            continue  # forgotten meanwhile
        seen = _seen(engine, moment, name, due)
        room -= size_of(seen)
        if room < 0:
            return AgentsAnswer(ok=True, agents=tuple(page), more=True)
        page.append(seen)
    return AgentsAnswer(ok=True, agents=tuple(page), more=len(names) > limit)


def foremost(engine: Engine, moment: Moment) -> Generator[None, Moment, tuple[AgentRow, ...]]:
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
    return tuple(_row(engine, moment, name, due) for name in names if name in known)


def due_by(stops: Sequence[Stop]) -> Due:
    """Return what gives the epoch that an agent has to acknowledge, 0 if nothing stops it."""
    own: dict[str | None, int] = {}
    for stop in stops:
        own[stop.agent] = max(stop.epoch, own.get(stop.agent, 0))
    common = own.get(None, 0)
    return lambda agent: max(common, own.get(agent, 0))


def _seen(engine: Engine, moment: Moment, name: str, due: Due) -> AgentSeen:
    """Return an agent with the newest of its actions that have no outcome yet."""
    row, newest = _row(engine, moment, name, due), engine.actions.under_way(name)[-SHOWN:]
    return AgentSeen(**msgspec.structs.asdict(row), open_actions=newest)


def _row(engine: Engine, moment: Moment, name: str, due: Due) -> AgentRow:
    guards, t, agent = engine.guards, moment.t, engine.keys.agents[name]
    kernel, standings = guards.safe_mode.status(name, t), _standings(engine, moment, name)
    sources = tuple(pause.source for pause in guards.pause.pauses(name))
    stopped = due(name) > 0
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
        stopped=stopped,
        pauses=cast("tuple[PauseSource, ...]", sources),
        state="stopped" if stopped else "paused" if sources else cast("AgentState", kernel.state),
        kernel=kernel.state,
        consecutive_errors=kernel.consecutive_errors,
        max_consecutive_errors=kernel.threshold,
        tokens=round(guards.rate.agent_level(name, t), 1),
        burst=guards.rate.agent_burst(name),
        iterations=guards.iterations.most(name),
        max_iterations=guards.iterations.limit(name),
        budgets=tuple(map(budget, standings)),
        anomalies=guards.anomaly.holding(name, t),
        near=tuple(near),
        reached=tuple(limit for limit in near if near[limit]),
    )


def _standings(engine: Engine, moment: Moment, name: str) -> Sequence[Standing]:
    """Return the fullest chain, the fullest session, and the agent's part of the day."""
    guard = engine.guards.budget
    return (*guard.fullest(name, moment.t), guard.day_of(name, moment.at))


def _near(
    engine: Engine, name: str, t: float, standings: Sequence[Standing]
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
