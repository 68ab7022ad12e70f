"""Today's spending by agent and model, its rate, and a forecast until midnight UTC."""

import heapq
from collections.abc import Generator, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.guards.budget.limits import PendingSums, Standing
from safetyd.core.messages.money import usd
from safetyd.core.reporting.day_spending import QUARTER_S
from safetyd.operators.contract.guard_contract import Budget, MoneyAnswer, Projection
from safetyd.operators.views.guard_view import budget, keyless_budget
from safetyd.operators.views.paging import PAGE_BYTES, SLICE, fitting

DAY_S: Final = 86_400
RECENT: Final = 4  # quarters of an hour before the current one
MAX_ROWS: Final = 100  # maximum number of rows, for agents, models and sessions each
ROWS_BYTES: Final = PAGE_BYTES // 4
NONE_PENDING: Final = PendingSums(())


def money(state: EngineState, moment: Moment) -> Generator[None, Moment, MoneyAnswer]:
    """Return today's spending by agent, model and session."""
    guard = state.guards.budget
    agents, sessions = list[Standing](), list[Standing]()
    for number, name in enumerate(guard.agents, 1):
        if number % SLICE == 0:
            moment = yield
        day, *others = guard.of_agent(name, moment.at)
        pending = guard.pending(name)
        agents += _used([day], pending)
        sessions += _used((one for one in others if one.scope == "session"), pending)
    pending = guard.pending()
    models = _used(guard.of_models(moment.at), pending)
    rows: list[tuple[Budget, ...]] = []
    for found in (agents, models, sessions):
        moment = yield
        rows.append(_most_used(found, pending))
    today = next(guard.standings(moment.at))
    series = state.records.spending.series(moment.at)
    return MoneyAnswer(
        ok=True,
        at=moment.at,
        today=budget(today, pending),
        purchases=budget(guard.bought_today(moment.at), NONE_PENDING),
        keyless=keyless_budget(state, moment, pending),
        bucket_s=QUARTER_S,
        series=tuple(map(usd, series)),
        projection=_projection(series, today, moment.at),
        agents=rows[0],
        models=rows[1],
        sessions=rows[2],
        left_out=len(agents) + len(models) + len(sessions) - sum(map(len, rows)),
    )


def _used(standings: Iterable[Standing], pending: PendingSums) -> list[Standing]:
    return [one for one in standings if one.account.used or pending.of(one)]


def _most_used(standings: Sequence[Standing], pending: PendingSums) -> tuple[Budget, ...]:
    most = heapq.nlargest(MAX_ROWS, standings, key=lambda one: (one.account.used, pending.of(one)))
    return fitting((budget(one, pending) for one in most), ROWS_BYTES)


def _projection(series: Sequence[int], today: Standing, at: datetime) -> Projection:
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    gone_s = (at - midnight).total_seconds()
    begun = max(len(series) - 1 - RECENT, 0)  # the first quarter that counts
    before = series[begun - 1] if begun else 0
    over_s = max(gone_s - begun * QUARTER_S, float(QUARTER_S))
    spent = series[-1] - before
    per_s = spent / over_s
    return Projection(
        over_s=round(over_s, 1),
        spent=usd(spent),
        per_hour=usd(round(per_s * 3600)),
        at_midnight=usd(round(series[-1] + per_s * (DAY_S - gone_s))),
        used_up_at=_used_up(today, per_s, at, DAY_S - gone_s),
    )


def _used_up(today: Standing, per_s: float, at: datetime, left_s: float) -> datetime | None:
    """Return when the daily limit is reached, counting reserved money as spent."""
    if not today.base:
        return None
    room = max(today.limit - today.account.used, 0)
    if room > per_s * left_s or (room and not per_s):
        return None
    return at + timedelta(seconds=room / per_s if room else 0.0)
