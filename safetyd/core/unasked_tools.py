"""Pauses or stops a coding agent that ran a tool without asking, as `hosts.unasked` says."""

from collections.abc import Sequence

import msgspec

from safetyd.core.actor import Actor, hearing, on
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import HostUnasked, Paused, Resumed, Stopped
from safetyd.core.host_rules import HostRules


class UnaskedState(msgspec.Struct):
    epoch: int = 0  # the epoch of the last stop or resume


class UnaskedTools(Actor):
    """Emits `Paused` or `Stopped` with the source `anomaly`."""

    name = "unasked_tools"
    _state: UnaskedState

    def __init__(self, rules: HostRules) -> None:
        self._then = rules.unasked
        self._state = UnaskedState()
        self.hears = hearing(
            on(HostUnasked, self._unasked), on(Stopped, self._moved), on(Resumed, self._moved)
        )

    def _unasked(self, event: HostUnasked) -> Sequence[Event]:
        reason = f"{', '.join(event.tools)} ran without asking safetyd"
        agent, by = event.agent, "safetyd"
        match self._then:
            case "tell":
                return ()
            case "pause":
                paused = Paused(
                    at=event.at, t=event.t, agent=agent, source="anomaly", by=by, reason=reason
                )
                return (paused,)
            case "stop":
                stopped = Stopped(
                    at=event.at,
                    t=event.t,
                    agent=agent,
                    source="anomaly",
                    by=by,
                    reason=reason,
                    epoch=self._state.epoch + 1,
                )
                return (stopped,)

    def _moved(self, event: Stopped | Resumed) -> None:
        self._state.epoch = max(self._state.epoch, event.epoch)
