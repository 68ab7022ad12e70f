"""Circuit breakers and the results of their calls."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

import msgspec

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.guards.breaker import BreakerStatus
from safetyd.core.guards.circuit import Call
from safetyd.core.reporting.failure_windows import MAX_CALLS
from safetyd.operators.contract.guard_contract import Breaker, BreakersAnswer, CallWindow
from safetyd.operators.views.paging import fitting

DRAWN: Final = 100  # how many breakers have their calls listed


def breakers(state: EngineState, moment: Moment) -> BreakersAnswer:
    """Return all circuit breakers."""
    guard = state.guards.breaker
    tripped = guard.tripped
    found = (*tripped, *reversed(guard.breakers[len(tripped) :]))
    rows = fitting(
        _drawn(state, one, moment) if number < DRAWN else breaker(state, one, moment)
        for number, one in enumerate(found)
    )
    return BreakersAnswer(
        ok=True,
        breakers=rows,
        left_out=len(found) - len(rows),
        limits=state.policy.breaker,
    )


def breaker(state: EngineState, found: BreakerStatus, moment: Moment) -> Breaker:
    """Return the state of a breaker, without its calls."""
    open_s = None if found.open_t is None else round(moment.t - found.open_t, 3)
    return Breaker(
        breaker=found.breaker,
        state=found.state,
        agent=found.agent,
        reason=found.reason,
        calls=found.calls,
        failures=found.failures,
        probes_out=found.probes_out,
        keyless=found.keyless,
        open_s=open_s,
        wait_s=_wait_s(state, found, open_s),
        probes_started=found.probes_started,
        probes_succeeded=found.probes_succeeded,
    )


def _drawn(state: EngineState, found: BreakerStatus, moment: Moment) -> Breaker:
    window_s = state.policy.breaker.window_s
    if found.state == "closed":
        calls = state.guards.breaker.calls(found.key)
        window = _window(calls, moment.t, moment.t - window_s)
    else:
        calls = state.records.failure_windows.calls(found.key)
        window = _window(calls, moment.t, calls[-1].t - window_s if calls else 0.0)
    return msgspec.structs.replace(breaker(state, found, moment), window=window)


def _window(calls: Sequence[Call], t: float, begun_t: float) -> CallWindow:
    recent = [call.ok for call in calls if call.t > begun_t]
    shown = calls[-MAX_CALLS:]
    return CallWindow(
        calls=len(recent),
        failures=recent.count(False),
        in_a_row=sum(1 for _ in takewhile(lambda call: not call.ok, reversed(calls))),
        ages_s=tuple(round(t - call.t, 1) for call in shown),
        ok=tuple(call.ok for call in shown),
    )


def _wait_s(state: EngineState, found: BreakerStatus, open_s: float | None) -> float | None:
    if open_s is None or found.state != "open":
        return None
    return max(round(state.policy.breaker.open_s - open_s, 3), 0.0)
