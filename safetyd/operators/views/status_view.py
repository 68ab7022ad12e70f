"""The overall state: stops, restrictions, and the agents that need attention."""

from collections.abc import Callable, Generator
from datetime import datetime
from itertools import islice
from typing import Final, get_args

import msgspec

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import LEVELS, Moment
from safetyd.core.events.guard_events import AnomalyFound
from safetyd.core.messages.proposal import Urgency
from safetyd.operators.contract.hold_contract import (
    Pausing,
    SafeModeAnswer,
    SafeModeShown,
)
from safetyd.operators.contract.status_contract import (
    DaemonFacts,
    Standstill,
    StatusAnswer,
    Unsent,
    UrgencyCount,
    Waiting,
)
from safetyd.operators.views.agent_view import RECENT_S, due_by, foremost, states
from safetyd.operators.views.anomaly_view import finding
from safetyd.operators.views.breaker_view import breaker
from safetyd.operators.views.guard_view import budget, keyless_budget, pending_costs
from safetyd.operators.views.paging import PAGE_BYTES, fitting
from safetyd.operators.views.rota_view import on_call_now

HEARD_S: Final = 60.0
MAX_SHOWN: Final = 5  # maximum number of pauses, of breakers, and of kernels in safe mode
MAX_HOLDS: Final = 50  # maximum number of kernels in a query for safe mode only
FINDINGS_BYTES: Final = PAGE_BYTES // 4
SLICE: Final = 500  # requests per slice, which takes about a millisecond

_URGENCIES: Final[tuple[Urgency, ...]] = get_args(Urgency)


def status(
    state: EngineState, moment: Moment, facts: Callable[[], DaemonFacts]
) -> Generator[None, Moment, StatusAnswer]:
    """Return stops, acknowledgements, agents, and the restrictions of guards."""
    most = yield from foremost(state, moment)
    counted = yield from states(state, moment)
    urgencies = yield from _by_urgency(state)
    unsent = yield from _unsent(state, moment)
    moment = yield
    tripped, recent = state.guards.breaker.tripped, _recent(state, moment)
    spending, pending = state.guards.budget, pending_costs(state)
    return StatusAnswer(
        **msgspec.structs.asdict(facts()),
        at=moment.at,
        mode=state.policy.mode,
        profile=state.policy.profile,
        policy=state.policy_digest,
        seq=state.seq,
        stop=standstill(state, moment),
        safe_mode=shown_safe_mode(state, moment, None),
        paused=state.guards.pause.agents,
        pauses=_pauses(state),
        today=budget(next(spending.standings(moment.at)), pending),
        keyless_today=keyless_budget(state, moment, pending),
        warn_ratio=state.policy.budget.warn_ratio,
        breakers=tuple(breaker(state, one, moment) for one in tripped[:MAX_SHOWN]),
        tripped=len(tripped),
        findings=fitting((finding(state, one) for one in recent), FINDINGS_BYTES),
        found=len(recent),
        requests=_requests(state, moment, urgencies, unsent),
        on_call=on_call_now(state, moment),
        wide_grants=tuple(state.grants.wide),
        histories=state.records.file_commits.trouble,
        agents=len(state.keys.agents),
        foremost=most,
        agent_states=counted,
        own_attempts=state.records.blocked_attempts.own[:MAX_SHOWN],
        dangerous=tuple(islice(state.records.blocked_attempts.dangerous(moment.t), MAX_SHOWN)),
        folderless=tuple(islice(state.records.missing_folders.recent(moment.t), MAX_SHOWN)),
    )


def safe_mode(state: EngineState, moment: Moment, agent: str | None) -> SafeModeAnswer:
    """Return the safe mode of one agent or, if None, the most restrictive of all."""
    shown = shown_safe_mode(state, moment, agent, MAX_HOLDS)
    return SafeModeAnswer(ok=True, **msgspec.structs.asdict(shown))


def shown_safe_mode(
    state: EngineState, moment: Moment, agent: str | None, most: int = MAX_SHOWN
) -> SafeModeShown:
    """Return the safe mode as a part of other answers."""
    guard = state.guards.safe_mode
    return SafeModeShown(
        **msgspec.structs.asdict(guard.status(agent, moment.t)),
        holds=tuple(islice(guard.holds(agent, moment.t), most)),
    )


def _pauses(state: EngineState) -> tuple[Pausing, ...]:
    """Return the pauses of the agents that have been paused longest."""
    guard = state.guards.pause
    return tuple(one for agent in guard.agents[:MAX_SHOWN] for one in pauses_of(state, agent))


def pauses_of(state: EngineState, agent: str) -> tuple[Pausing, ...]:
    """Return the pauses of one agent, oldest first."""
    return tuple(
        Pausing(
            agent=agent,
            source=pause.source,
            by=pause.by,
            reason=pause.reason,
            since=pause.since,
            request=_ending(state, agent, pause.source),
        )
        for pause in state.guards.pause.pauses(agent)
    )


def _ending(state: EngineState, agent: str, source: str) -> str | None:
    """Return the pending request whose approval ends a pause, if any."""
    return next((one.id for one in state.approvals.pending(agent) if one.pauses == source), None)


def _by_urgency(state: EngineState) -> Generator[None, Moment, tuple[UrgencyCount, ...]]:
    """Count pending requests by urgency, most urgent first."""
    found: dict[Urgency, tuple[int, datetime]] = {}
    for number, one in enumerate(list(state.approvals.pending()), 1):
        if number % SLICE == 0:
            yield
        count, oldest = found.get(one.urgency, (0, one.asked.at))
        found[one.urgency] = count + 1, oldest
    return tuple(
        UrgencyCount(urgency=urgency, pending=found[urgency][0], oldest_at=found[urgency][1])
        for urgency in reversed(_URGENCIES)
        if urgency in found
    )


def _unsent(state: EngineState, moment: Moment) -> Generator[None, Moment, Unsent | None]:
    """Count pending requests without a message that a provider accepted."""
    until = min((due for *_, due in state.outbox.waiting(moment.at)), default=None)
    requests = urgent = expiring = 0
    for number, one in enumerate(list(state.approvals.pending()), 1):
        if number % SLICE == 0:
            yield
        if not any(delivery.told_at for delivery in state.outbox.told(one.id)):
            requests += 1
            urgent += one.urgency == "high"
            expiring += bool(until and one.deadline and one.deadline <= until)
    if not requests:
        return None
    return Unsent(requests=requests, urgent=urgent, until=until, expiring=expiring)


def _requests(
    state: EngineState,
    moment: Moment,
    urgencies: tuple[UrgencyCount, ...],
    unsent: Unsent | None,
) -> Waiting:
    """Return how many requests are pending, which agent has the most, and the age of the oldest."""
    most, most_pending = state.approvals.most_insistent()
    oldest = next(state.approvals.pending(), None)
    waited_s = 0.0 if oldest is None else (moment.at - oldest.asked.at).total_seconds()
    return Waiting(
        pending=state.approvals.pending_count(),
        oldest_s=round(max(waited_s, 0.0), 1),
        most=most,
        most_pending=most_pending,
        channels=tuple(state.policy.telling.channels),
        down=state.outbox.down,
        unnotified=state.outbox.unnotified(moment.at),
        by_urgency=urgencies,
        unsent=unsent if state.policy.telling.channels else None,
    )


def _recent(state: EngineState, moment: Moment) -> list[AnomalyFound]:
    """Return the anomalies of the last hour, most severe and newest first."""
    newest = reversed(state.guards.anomaly.findings)
    recent = [found for found in newest if moment.t - found.t < RECENT_S]
    recent.sort(key=lambda found: LEVELS.index(found.severity), reverse=True)
    return recent


def standstill(state: EngineState, moment: Moment) -> Standstill:
    """Return the stops, and which recently active agents acknowledged them."""
    stops = state.stop.stops
    agents = state.keys.agents if stops else {}
    heard = {n: agent for n, agent in agents.items() if moment.t - agent.heard_t <= HEARD_S}
    due_of = due_by(stops)
    due = {name: due_of(name) for name in heard}
    return Standstill(
        active=bool(stops),
        epoch=state.stop.epoch,
        stops=tuple(stops),
        acknowledged=tuple(n for n, a in heard.items() if 0 < due[n] <= a.stop_epoch),
        silent=tuple(n for n, a in heard.items() if a.stop_epoch < due[n]),
        open_actions=state.actions.total,
    )
