"""Recent and current anomalies, and the numbers behind them."""

from collections.abc import Generator, Iterator, Sequence
from typing import Final

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import AnomalyFound
from safetyd.core.guards.anomaly.findings import RANK
from safetyd.core.guards.anomaly.measures import Measure
from safetyd.operators.contract.guard_contract import AnomaliesAnswer, AnomaliesQuestion, Finding
from safetyd.operators.views.paging import PAGE_BYTES, fitting, in_slices

MAX_HOLDING: Final = 500  # maximum number of agents with current anomalies
FINDINGS_BYTES: Final = PAGE_BYTES // 4
MEASURES_BYTES: Final = PAGE_BYTES // 2


def anomalies(
    state: EngineState, moment: Moment, wanted: AnomaliesQuestion
) -> Generator[None, Moment, AnomaliesAnswer]:
    """Return the last findings, current anomalies, and the numbers behind them."""
    guard = state.guards.anomaly
    found = findings(state, wanted.agent)
    if wanted.sort == "severity":
        found.sort(key=lambda one: RANK[one.severity], reverse=True)
    rows = fitting((finding(state, one) for one in found), FINDINGS_BYTES)
    holding = yield from _holding(state, moment, wanted.agent)
    measures = yield from _measures(state, found)
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


def findings(state: EngineState, agent: str | None = None) -> list[AnomalyFound]:
    """Return the last findings of all agents or one, newest first."""
    newest = reversed(state.guards.anomaly.findings)
    return [found for found in newest if agent in {None, found.agent}]


def finding(state: EngineState, found: AnomalyFound) -> Finding:
    return Finding(
        at=found.at,
        rule=found.rule,
        severity=found.severity,
        message=found.message,
        agent=found.agent,
        breaker=found.breaker,
        seen=state.records.blocked_attempts.acknowledged(found.t),
    )


def _holding(
    state: EngineState, moment: Moment, agent: str | None
) -> Generator[None, Moment, dict[str, dict[str, int]]]:
    """Return current anomalies by agent and detector."""
    guard = state.guards.anomaly

    def held(name: str, moment: Moment) -> Iterator[tuple[str, dict[str, int]]]:
        if found := guard.holding(name, moment.t):
            yield name, found

    names = guard.agents if agent is None else (agent,)
    return dict((yield from in_slices(names, held, moment)))


def _measures(
    state: EngineState, found: Sequence[AnomalyFound]
) -> Generator[None, Moment, list[Measure]]:
    """Return the numbers of each detector with a finding, once, in the order of findings."""
    measures: list[Measure] = []
    for about in {(one.agent, one.breaker, one.rule): one for one in found}.values():
        moment = yield
        measures += _measures_of(state, about, moment.t)
    return measures


def _measures_of(state: EngineState, found: AnomalyFound, t: float) -> Iterator[Measure]:
    guard, detector = state.guards.anomaly, found.rule.removeprefix("anomaly.")
    if found.breaker is not None:
        if trips := guard.trips(found, t):
            yield trips
    elif found.agent is not None:
        yield from guard.measures(found.agent, t, (detector,))
