"""Rate limits, and sessions that used up their rounds or are in a cooldown."""

import heapq
from collections.abc import Generator, Iterator
from functools import partial
from typing import Final

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
from safetyd.operators.views.paging import PAGE_BYTES, fitting, in_slices

MAX_ROWS: Final = 500  # maximum number of rows, for buckets, rounds and cooldowns each
BUCKETS_BYTES: Final = PAGE_BYTES // 2


def limits(state: EngineState, moment: Moment) -> Generator[None, Moment, LimitsAnswer]:
    """Return all rate limits, used-up rounds and cooldowns."""
    guards = state.guards
    agents = yield from in_slices(guards.rate.agents, partial(_of_agent, state), moment)
    models = yield from in_slices(guards.rate.models, partial(_of_model, state), moment)
    reached = yield from in_slices(guards.iterations.agents, partial(_reached, state), moment)
    cooling = yield from in_slices(guards.cooldown.agents, partial(_cooling, state), moment)
    moment = yield
    emptiest = heapq.nsmallest(MAX_ROWS, agents + models, key=lambda one: one.tokens / one.burst)
    longest = heapq.nlargest(MAX_ROWS, cooling, key=lambda one: one.left_s)
    buckets = fitting((*_common(state, moment.t), *emptiest), BUCKETS_BYTES)
    iterations = fitting(reached[:MAX_ROWS], BUCKETS_BYTES // 2)
    cooldowns = fitting(longest, BUCKETS_BYTES // 2)
    known = sum(map(len, (tuple(_common(state, moment.t)), agents, models, reached, cooling)))
    return LimitsAnswer(
        ok=True,
        buckets=buckets,
        iterations=iterations,
        cooldowns=cooldowns,
        left_out=known - len(buckets) - len(iterations) - len(cooldowns),
    )


def _common(state: EngineState, t: float) -> Iterator[Bucket]:
    rate = state.guards.rate
    yield _bucket("global", "", rate.common_bucket(t))
    if keyless := rate.keyless_bucket(t):
        yield _bucket("keyless", "", keyless)


def _of_agent(state: EngineState, agent: str, moment: Moment) -> Iterator[Bucket]:
    yield _bucket("agent", agent, state.guards.rate.agent_bucket(agent, moment.t))


def _of_model(state: EngineState, model: str, moment: Moment) -> Iterator[Bucket]:
    yield _bucket("model", model, state.guards.rate.model_bucket(model, moment.t))


def _bucket(kind: BucketKind, id_: str, level: BucketLevel) -> Bucket:
    return Bucket(
        kind=kind,
        id=id_,
        tokens=round(level.tokens, 1),
        burst=level.burst,
        per_s=round(level.per_s, 6),
        full_s=round(level.full_s, 1),
    )


def _reached(state: EngineState, agent: str, _moment: Moment) -> Iterator[RoundsReached]:
    guard = state.guards.iterations
    limit = guard.limit(agent)
    for session, rounds in guard.rounds(agent).items():
        if rounds >= limit:
            yield RoundsReached(agent=agent, session=session, rounds=rounds, limit=limit)


def _cooling(state: EngineState, agent: str, moment: Moment) -> Iterator[CoolingDown]:
    guard = state.guards.cooldown
    cooldown_s = guard.cooldown_s(agent)
    for target, left_s in guard.cooling(agent, moment.t).items():
        yield CoolingDown(
            agent=agent, target=target, left_s=round(left_s, 1), cooldown_s=cooldown_s
        )
