"""Pauses: a paused agent is blocked, even from reading, until every source of the pause is cleared.

Sources (an operator, an anomaly, the budget, a rollback) are cleared separately.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from safetyd.core.action_types import Kind
from safetyd.core.actor import Guard, hearing, on
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import Paused, PauseSource, Unpaused
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict


class Pause(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One reason why an agent is paused."""

    source: PauseSource
    by: str
    reason: str
    since: datetime


class PauseState(msgspec.Struct):
    pauses: dict[str, list[Pause]] = {}  # by agent, one per source, oldest first


class PauseGuard(Guard):
    name = "pause"
    _state: PauseState

    def __init__(self) -> None:
        self._state = PauseState()
        self.hears = hearing(on(Paused, self._paused), on(Unpaused, self._unpaused))

    @property
    def agents(self) -> tuple[str, ...]:
        """Return the paused agents, longest paused first."""
        return tuple(self._state.pauses)

    def pauses(self, agent: str) -> tuple[Pause, ...]:
        """Return the active pauses of an agent, oldest first."""
        return tuple(self._state.pauses.get(agent, ()))

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:  # noqa: ARG002
        pauses = self._state.pauses.get(proposed.agent)
        return ALLOWED if pauses is None else _verdict(proposed.agent, pauses)

    def now(self, decided: Decided, moment: Moment) -> str:  # noqa: ARG002
        agent = decided.agent
        return "; ".join(describe(agent, pause) for pause in self.pauses(agent)) or "none"

    def _paused(self, event: Paused) -> None:
        pause = Pause(source=event.source, by=event.by, reason=event.reason, since=event.at)
        self._state.pauses[event.agent] = [*self._others(event.agent, (event.source,)), pause]

    def _unpaused(self, event: Unpaused) -> None:
        if left := self._others(event.agent, event.sources):
            self._state.pauses[event.agent] = left
        else:
            self._state.pauses.pop(event.agent, None)

    def _others(self, agent: str, sources: Sequence[str]) -> list[Pause]:
        return [pause for pause in self.pauses(agent) if pause.source not in sources]


def _verdict(agent: str, pauses: Sequence[Pause]) -> Verdict:
    """Return one verdict for all sources. The oldest gives the reason."""
    rule, *also = (f"pause.{pause.source}" for pause in pauses)
    return Verdict(
        "pause",
        Severity.BLOCK,
        rule,
        describe(agent, pauses[0]),
        cause="paused",
        also=tuple(also),
        remedy=f"after `safetyd unpause {agent}`",
    )


def describe(agent: str, pause: Pause) -> str:
    """Describe who caused the pause, when, and the reason if there is one."""
    said = f"{agent} was paused at {pause.since:%H:%M}Z by {pause.by}"
    return f"{said}: {pause.reason}" if pause.reason else said
