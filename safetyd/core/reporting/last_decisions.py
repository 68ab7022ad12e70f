"""The last decision about each known agent, for operators."""

from datetime import datetime

import msgspec

from safetyd.core.actor import Actor, hearing, later, on
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.guard_events import NameForgotten
from safetyd.core.guards.keys import KeysGuard
from safetyd.core.messages.verdict import Severity, strictest


class LastDecision(msgspec.Struct, frozen=True, gc=False):
    """A decision with its strictest rule. `rule` is empty if no rule restricted the action."""

    id: str
    type: str
    decision: Severity
    rule: str
    at: datetime


class LastDecisionsState(msgspec.Struct):
    agents: dict[str, LastDecision] = {}


class LastDecisions(Actor):
    """Stores one decision for each agent that `keys` knows. That limits their number."""

    name = "last_decisions"
    _state: LastDecisionsState

    def __init__(self, keys: KeysGuard) -> None:
        self._keys = keys
        self._state = LastDecisionsState()
        self.hears = hearing(
            on(Decided, self._decided), later(self._decided), on(NameForgotten, self._forgotten)
        )

    def of(self, agent: str) -> LastDecision | None:
        return self._state.agents.get(agent)

    def _decided(self, event: Decided) -> None:
        if event.agent in self._keys.agents:
            rule = strictest(event.verdicts).rule if event.verdicts else ""
            self._state.agents[event.agent] = LastDecision(
                event.id, event.type, event.decision, rule, event.at
            )

    def _forgotten(self, event: NameForgotten) -> None:
        self._state.agents.pop(event.agent, None)
