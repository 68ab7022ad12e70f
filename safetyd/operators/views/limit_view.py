"""The limits on how often: token buckets, and rounds and cooldowns that hold now."""

import heapq
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.guards.rate.rate import BucketLevel
from safetyd.operators.contract.guard_contract import (
    Bucket,
    BucketKind,
    CoolingDown,
    LimitsAnswer,
    RoundsReached,
)
from safetyd.operators.views.agent_view import SLICE
from safetyd.operators.views.paging import PAGE_BYTES, fitting

MAX_ROWS: Final = 500  # of buckets, and of what holds
BUCKETS_BYTES: Final = PAGE_BYTES // 2

Row = TypeVar("Row")


def limits(engine: EngineState, moment: Moment) -> Generator[None, Moment, LimitsAnswer]:
    """Return what is left of every rate, and whom rounds and cooldowns hold back."""
    guards = engine.guards
    agents = yield from _each(guards.rate.agents, partial(_of_agent, engine))
    models = yield from _each(guards.rate.models, partial(_of_model, engine))
    reached = yield from _each(guards.iterations.agents, partial(_reached, engine))
    cooling = yield from _each(guards.cooldown.agents, partial(_cooling, engine))
    moment = yield
    emptiest = heapq.nsmallest(MAX_ROWS, agents + models, key=lambda one: one.tokens / one.burst)
    longest = heapq.nlargest(MAX_ROWS, cooling, key=lambda one: one.left_s)
    buckets = fitting((*_common(engine, moment.t), *emptiest), BUCKETS_BYTES)
    iterations = fitting(reached[:MAX_ROWS], BUCKETS_BYTES // 2)
    cooldowns = fitting(longest, BUCKETS_BYTES // 2)
    known = sum(map(len, (tuple(_common(engine, moment.t)), agents, models, reached, cooling)))
    return LimitsAnswer(
        ok=True,
        buckets=buckets,
        iterations=iterations,
        cooldowns=cooldowns,
        left_out=known - len(buckets) - len(iterations) - len(cooldowns),
    )


def _each(
    names: Sequence[str], rows_of: Callable[[str, float], Iterable[Row]]
) -> Generator[None, Moment, list[Row]]:
    """Return the rows of all these names, looked at in slices."""
    rows: list[Row] = []
    for begin in range(0, len(names), SLICE):
        moment = yield
        for name in names[begin : begin + SLICE]:
            rows += rows_of(name, moment.t)
    return rows


def _common(engine: EngineState, t: float) -> Iterator[Bucket]:
    rate = engine.guards.rate
    yield _bucket("global", "", rate.common_bucket(t))
    if keyless := rate.keyless_bucket(t):
        yield _bucket("keyless", "", keyless)


def _of_agent(engine: EngineState, agent: str, t: float) -> Iterator[Bucket]:
    yield _bucket("agent", agent, engine.guards.rate.agent_bucket(agent, t))


def _of_model(engine: EngineState, model: str, t: float) -> Iterator[Bucket]:
    yield _bucket("model", model, engine.guards.rate.model_bucket(model, t))


def _bucket(kind: BucketKind, id_: str, level: BucketLevel) -> Bucket:
    return Bucket(
        kind=kind,
        id=id_,
        tokens=round(level.tokens, 1),
        burst=level.burst,
        per_s=round(level.per_s, 6),
        full_s=round(level.full_s, 1),
    )


def _reached(engine: EngineState, agent: str, _t: float) -> Iterator[RoundsReached]:
    guard = engine.guards.iterations
    limit = guard.limit(agent)
    for session, rounds in guard.rounds(agent).items():
        if rounds >= limit:
            yield RoundsReached(agent=agent, session=session, rounds=rounds, limit=limit)


def _cooling(engine: EngineState, agent: str, t: float) -> Iterator[CoolingDown]:
    guard = engine.guards.cooldown
    cooldown_s = guard.cooldown_s(agent)
    for target, left_s in guard.cooling(agent, t).items():
        yield CoolingDown(
            agent=agent, target=target, left_s=round(left_s, 1), cooldown_s=cooldown_s
        )
