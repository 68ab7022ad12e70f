"""Pauses or stops a coding agent that ran a tool without asking, as `hosts.unasked` says."""

from collections.abc import Sequence
from typing import Final

import msgspec

from safetyd.core.actor import Actor, hearing, on
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import HostUnasked, Paused, Resumed, Stopped
from safetyd.core.host_rules import HostRules

BY: Final = "safetyd"
SOURCE: Final = "anomaly"


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
        at, t, agent = event.at, event.t, event.agent
        how = "although safetyd refused it" if event.refused else "without asking safetyd"
        reason = f"{', '.join(event.tools)} ran {how}"
        if self._then == "tell":
            return ()
        if self._then == "pause":
            return (Paused(at=at, t=t, agent=agent, source=SOURCE, by=BY, reason=reason),)
        epoch = self._state.epoch + 1
        return (Stopped(at=at, t=t, agent=agent, source=SOURCE, by=BY, reason=reason, epoch=epoch),)

    def _moved(self, event: Stopped | Resumed) -> None:
        self._state.epoch = max(self._state.epoch, event.epoch)
