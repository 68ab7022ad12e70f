"""The calls that opened each breaker, for operators. Breakers themselves forget them."""

from typing import Final

import msgspec

from safetyd.core.actor import Actor, hearing, on
from safetyd.core.events.decision_events import Settled
from safetyd.core.events.guard_events import BreakerMoved
from safetyd.core.guards.breaker import BreakerGuard, breaker_key
from safetyd.core.guards.circuit import Call

MAX_CALLS: Final = 60  # per breaker
MAX_OPENED: Final = 100  # maximum number of breakers with stored calls; the oldest is dropped first


class FailureWindowsState(msgspec.Struct):
    """Calls by breaker, oldest first."""

    failing: dict[str, list[Call]] = {}  # calls of each breaker that counted the last failure
    # For each breaker that is not closed: the calls that opened it.
    opened: dict[str, list[Call]] = {}


class FailureWindows(Actor):
    """Copies the calls of breakers on each failure, before a breaker opens and forgets them."""

    name = "failure_windows"
    _state: FailureWindowsState

    def __init__(self, breaker: BreakerGuard) -> None:
        self._breaker = breaker
        self._state = FailureWindowsState()
        self.hears = hearing(on(Settled, self._settled), on(BreakerMoved, self._moved))

    def calls(self, key: str) -> list[Call]:
        """Return the calls that opened a breaker, or nothing if they are unknown."""
        return self._state.opened.get(key, [])

    def _settled(self, event: Settled) -> None:
        if not event.ok:
            counted = self._breaker.counted(event)
            self._state.failing = {key: list(calls[-MAX_CALLS:]) for key, calls in counted}

    def _moved(self, event: BreakerMoved) -> None:
        key = breaker_key(event.agent, event.breaker, keyless=event.keyless)
        if event.state == "closed":
            self._state.opened.pop(key, None)
        # If a failed probe opens a breaker again, keep the calls that first opened it.
        elif event.state == "open" and (calls := self._failing(event, key)):
            self._state.opened.pop(key, None)
            self._state.opened[key] = calls
            if len(self._state.opened) > MAX_OPENED:
                del self._state.opened[next(iter(self._state.opened))]

    def _failing(self, event: BreakerMoved, key: str) -> list[Call]:
        """Return the calls of a breaker. If it opens for one agent, return that agent's calls."""
        failing = self._state.failing
        if key in failing or event.agent is None:
            return failing.get(key, [])
        name = event.breaker.removesuffix(f"/{event.agent}")
        everybodys = failing.get(breaker_key(None, name, keyless=event.keyless), [])
        return [call for call in everybodys if call.agent == event.agent]
