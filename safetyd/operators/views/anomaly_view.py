"""What was unusual of late, what is so now, and the numbers that showed it."""

from collections.abc import Generator, Iterator, Sequence
from typing import Final

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import AnomalyFound
from safetyd.core.guards.anomaly.findings import RANK
from safetyd.core.guards.anomaly.measures import Measure
from safetyd.operators.contract.guard_contract import AnomaliesAnswer, AnomaliesQuestion, Finding
from safetyd.operators.views.agent_view import SLICE
from safetyd.operators.views.paging import PAGE_BYTES, fitting

MAX_HOLDING: Final = 500  # agents of which something unusual holds
FINDINGS_BYTES: Final = PAGE_BYTES // 4
MEASURES_BYTES: Final = PAGE_BYTES // 2


def anomalies(
    engine: EngineState, moment: Moment, wanted: AnomaliesQuestion
) -> Generator[None, Moment, AnomaliesAnswer]:
    """Return the last findings, what holds now, and the numbers behind them."""
    guard = engine.guards.anomaly
    found = findings(engine, wanted.agent)
    if wanted.sort == "severity":
        found.sort(key=lambda one: RANK[one.severity], reverse=True)
    rows = fitting((finding(engine, one) for one in found), FINDINGS_BYTES)
    holding = yield from _holding(engine, moment, wanted.agent)
    measures = yield from _measures(engine, found)
    moment = yield
    held = dict(list(holding.items())[:MAX_HOLDING])
    shown = fitting(measures, MEASURES_BYTES)
    return AnomaliesAnswer(
        ok=True,
        findings=rows,
        holding=held,
        since_human_s=round(guard.since_human_s(moment.t), 3),
        measures=shown,
        left_out=sum(map(len, (found, holding, measures))) - sum(map(len, (rows, held, shown))),
    )


def findings(engine: EngineState, agent: str | None = None) -> list[AnomalyFound]:
    """Return the last findings, of all or of one agent, newest first."""
    newest = reversed(engine.guards.anomaly.findings)
    return [found for found in newest if agent in {None, found.agent}]


def finding(engine: EngineState, found: AnomalyFound) -> Finding:
    return Finding(
        at=found.at,
        rule=found.rule,
        severity=found.severity,
        message=found.message,
        agent=found.agent,
        breaker=found.breaker,
        seen=engine.guards.anomaly.seen(found),
    )


def _holding(
    engine: EngineState, moment: Moment, agent: str | None
) -> Generator[None, Moment, dict[str, dict[str, int]]]:
    """Return what holds now, by agent and detector."""
    guard, holding = engine.guards.anomaly, dict[str, dict[str, int]]()
    for number, name in enumerate(guard.agents if agent is None else (agent,), 1):
        if number % SLICE == 0:
            moment = yield
        if held := guard.holding(name, moment.t):
            holding[name] = held
    return holding


def _measures(
    engine: EngineState, found: Sequence[AnomalyFound]
) -> Generator[None, Moment, list[Measure]]:
    """Return the numbers of each detector that found something, once, in the order of findings."""
    measures: list[Measure] = []
    for about in {(one.agent, one.breaker, one.rule): one for one in found}.values():
        moment = yield
        measures += _measures_of(engine, about, moment.t)
    return measures


def _measures_of(engine: EngineState, found: AnomalyFound, t: float) -> Iterator[Measure]:
    guard, detector = engine.guards.anomaly, found.rule.removeprefix("anomaly.")
    if found.breaker is not None:
        if trips := guard.trips(found, t):
            yield trips
    elif found.agent is not None:
        yield from guard.measures(found.agent, t, (detector,))
