"""The calls that opened each breaker, for people to look at: a breaker that opens forgets them."""

from typing import Final

import msgspec

from safetyd.core.actor import Actor, hearing, on
from safetyd.core.events.decision_events import Settled
from safetyd.core.events.guard_events import BreakerMoved
from safetyd.core.guards.breaker import BreakerGuard, breaker_key
from safetyd.core.guards.circuit import Call

MAX_CALLS: Final = 60  # of one breaker
MAX_OPENED: Final = 100  # for one more, the window that is oldest is forgotten


class FailureWindowsState(msgspec.Struct):
    """Calls by breaker, oldest first."""

    failing: dict[str, list[Call]] = {}  # of those that the last failure counted in
    opened: dict[str, list[Call]] = {}  # of those that are not closed


class FailureWindows(Actor):
    """A failure is seen here before the breaker that it opens moves."""

    name = "failure_windows"
    _state: FailureWindowsState

    def __init__(self, breaker: BreakerGuard) -> None:
        self._breaker = breaker
        self._state = FailureWindowsState()
        self.hears = hearing(on(Settled, self._settled), on(BreakerMoved, self._moved))

    def calls(self, key: str) -> list[Call]:
        """Return the calls that opened a breaker, as far as they are known."""
        return self._state.opened.get(key, [])

    def _settled(self, event: Settled) -> None:
        if not event.ok:
            counted = self._breaker.counted(event)
            self._state.failing = {key: list(calls[-MAX_CALLS:]) for key, calls in counted}

    def _moved(self, event: BreakerMoved) -> None:
        key = breaker_key(event.agent, event.breaker, keyless=event.keyless)
        if event.state == "closed":
            self._state.opened.pop(key, None)
        # One that a probe opened again keeps what opened it first.
        elif event.state == "open" and (calls := self._failing(event, key)):
            self._state.opened.pop(key, None)
            self._state.opened[key] = calls
            if len(self._state.opened) > MAX_OPENED:
                del self._state.opened[next(iter(self._state.opened))]

    def _failing(self, event: BreakerMoved, key: str) -> list[Call]:
        """Return the calls of a breaker, or those of the one agent that it is opened for."""
        failing = self._state.failing
        if key in failing or event.agent is None:
            return failing.get(key, [])
        name = event.breaker.removesuffix(f"/{event.agent}")
        everybodys = failing.get(breaker_key(None, name, keyless=event.keyless), [])
        return [call for call in everybodys if call.agent == event.agent]
