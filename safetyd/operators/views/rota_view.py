"""Who is on call, from the engine's state."""

from datetime import timedelta

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.operators.contract.rota_contract import (
    DutyTurn,
    OnCallNow,
    RotaAnswer,
    RotaQuestion,
)


def on_call_now(state: EngineState, moment: Moment) -> OnCallNow | None:
    """Return who is on call, or None if there is no rota."""
    if not state.on_call.in_use:
        return None
    rota = state.on_call.rota
    names, until = rota.on_duty(moment.at), rota.next_change(moment.at)
    return OnCallNow(names=names, until=until, then=rota.on_duty(until) if until else ())


def rota(state: EngineState, moment: Moment, asked: RotaQuestion) -> RotaAnswer:
    """Return the turns of the next days, and the state of the calendar."""
    on_call, at = state.on_call, moment.at
    known = on_call.known
    turns = on_call.rota.turns(at, at + timedelta(days=asked.days)) if on_call.in_use else ()
    return RotaAnswer(
        ok=True,
        on_call=on_call_now(state, moment),
        turns=tuple(DutyTurn(names=one.names, starts=one.starts, ends=one.ends) for one in turns),
        timezone=on_call.config.timezone,
        calendar=on_call.config.calendar,
        read_until=known.until,
        problem=known.problem,
        unmatched=known.unmatched,
    )
