"""The top bar of every page: the overall state in one word, and pending requests."""

from collections.abc import Iterable, Sequence
from typing import Final

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.guards.kernel import EVERYBODY
from safetyd.core.guards.pause import Pause
from safetyd.core.guards.safe_mode import Hold
from safetyd.core.guards.stop import Stop
from safetyd.operators.contract.status_contract import Level, TopBarAnswer, TopBarHold
from safetyd.operators.views.status_view import standstill

NAMED: Final = 3  # agents that are listed by name


NOTHING_HOLDS: Final = TopBarHold(level="NORMAL")


def top_bar(state: EngineState, moment: Moment) -> TopBarAnswer:
    oldest = next(state.approvals.pending(), None)
    hold, *others = (*_holds(state, moment), NOTHING_HOLDS)
    return TopBarAnswer(
        ok=True,
        at=moment.at,
        seq=state.seq,
        hold=hold,
        others=tuple(others[:-1]),
        pending=state.approvals.pending_count(),
        oldest_at=None if oldest is None else oldest.asked.at,
        agents=len(state.keys.agents),
        standstill=standstill(state, moment),
    )


def stopped(stops: tuple[Stop, ...]) -> TopBarHold | None:
    """Return the restriction by stops, if there are any. Stops of all agents come first."""
    common = [stop for stop in stops if stop.agent is None]
    names = () if common else tuple(stop.agent or "" for stop in stops)
    return _hold("STOPPED", names, common or stops)


def _holds(state: EngineState, moment: Moment) -> list[TopBarHold]:
    """Return restrictions, strictest first: safe mode is stricter than a stop of one agent."""
    common = tuple(stop for stop in state.stop.stops if stop.agent is None)
    single = tuple(stop for stop in state.stop.stops if stop.agent is not None)
    found = (stopped(common), _safe_mode(state, moment), stopped(single), _paused(state))
    return [hold for hold in found if hold is not None]


def _safe_mode(state: EngineState, moment: Moment) -> TopBarHold | None:
    holds = list(state.guards.safe_mode.holds(None, moment.t))
    held = tuple(hold.agent for hold in holds)
    return _hold("SAFE MODE", () if EVERYBODY in held else held, holds)


def _paused(state: EngineState) -> TopBarHold | None:
    guard = state.guards.pause
    return _hold("PAUSED", guard.agents, guard.pauses(guard.agents[0]) if guard.agents else ())


def _hold(
    level: Level, names: Iterable[str], causes: Sequence[Stop | Hold | Pause]
) -> TopBarHold | None:
    """Return a restriction with the first of its causes, or None if it has no cause."""
    if not causes:
        return None
    agents = tuple(dict.fromkeys(names))
    return TopBarHold(
        level=level,
        agents=agents[:NAMED],
        more=max(len(agents) - NAMED, 0),
        since=causes[0].since,
        by=causes[0].by,
        why=causes[0].reason,
    )
