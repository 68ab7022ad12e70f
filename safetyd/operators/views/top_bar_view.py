"""What stands at the top of every page: how everything is in one word, and what waits."""

from typing import Final

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.guards.kernel import EVERYBODY
from safetyd.core.guards.stop import Stop
from safetyd.operators.contract.status_contract import TopBarAnswer, TopBarHold
from safetyd.operators.views.status_view import standstill

NAMED: Final = 3  # of those who are held


NOTHING_HOLDS: Final = TopBarHold(level="NORMAL")


def top_bar(engine: EngineState, moment: Moment) -> TopBarAnswer:
    oldest = next(engine.approvals.pending(), None)
    hold, *others = (*_holds(engine, moment), NOTHING_HOLDS)
    return TopBarAnswer(
        ok=True,
        at=moment.at,
        seq=engine.seq,
        hold=hold,
        others=tuple(others[:-1]),
        pending=engine.approvals.pending_count(),
        oldest_at=None if oldest is None else oldest.asked.at,
        agents=len(engine.keys.agents),
        standstill=standstill(engine, moment),
    )


def stopped(stops: tuple[Stop, ...]) -> TopBarHold | None:
    """Return what the stops hold, None if there are none; everybody's count most."""
    if not stops:
        return None
    common = [stop for stop in stops if stop.agent is None]
    first = (common or list(stops))[0]
    names = () if common else tuple(dict.fromkeys(stop.agent or "" for stop in stops))
    return TopBarHold(
        level="STOPPED",
        agents=names[:NAMED],
        more=max(len(names) - NAMED, 0),
        since=first.since,
        by=first.by,
        why=first.reason,
    )


def _holds(engine: EngineState, moment: Moment) -> list[TopBarHold]:
    """Return what holds, the strictest first: a stop of one agent holds less than safe mode."""
    common = tuple(stop for stop in engine.stop.stops if stop.agent is None)
    single = tuple(stop for stop in engine.stop.stops if stop.agent is not None)
    found = (stopped(common), _safe_mode(engine, moment), stopped(single), _paused(engine))
    return [hold for hold in found if hold is not None]


def _safe_mode(engine: EngineState, moment: Moment) -> TopBarHold | None:
    holds = list(engine.guards.safe_mode.holds(None, moment.t))
    if not holds:
        return None
    first = holds[0]
    held = tuple(dict.fromkeys(hold.agent for hold in holds))
    names = () if EVERYBODY in held else held
    return TopBarHold(
        level="SAFE MODE",
        agents=names[:NAMED],
        more=max(len(names) - NAMED, 0),
        since=first.since,
        by=first.by,
        why=first.reason,
    )


def _paused(engine: EngineState) -> TopBarHold | None:
    guard = engine.guards.pause
    if not guard.agents:
        return None
    first = guard.pauses(guard.agents[0])[0]
    return TopBarHold(
        level="PAUSED",
        agents=guard.agents[:NAMED],
        more=max(len(guard.agents) - NAMED, 0),
        since=first.since,
        by=first.by,
        why=first.reason,
    )
