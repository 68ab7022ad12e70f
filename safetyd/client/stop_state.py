"""The emergency stops that apply to this agent."""

import msgspec

from safetyd.core.messages.telemetry import Heartbeat


class _State(msgspec.Struct):
    active: bool
    epoch: int = 0
    agent: str | None = None


_read = msgspec.json.Decoder(_State).decode


class StopState:
    """Active stops: one for all agents and one for this agent. Each ends separately.

    A stop may end while the client is disconnected. After a reconnection, an allow proves that it
    ended.
    """

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._epochs: dict[str | None, int] = {}
        self._earlier: set[str | None] = set()

    @property
    def active(self) -> bool:
        return bool(self._epochs)

    def hear(self, data: bytes) -> Heartbeat | None:
        """Record a `state.stop` message. Return the acknowledgement if it starts a stop."""
        try:
            state = _read(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        if state.agent not in {None, self._agent}:
            return None
        self._earlier.discard(state.agent)
        if not state.active:
            self._epochs.pop(state.agent, None)
            return None
        self._epochs[state.agent] = state.epoch
        return Heartbeat(stop_epoch=state.epoch)

    def heartbeat(self) -> Heartbeat:
        return Heartbeat(stop_epoch=max(self._epochs.values(), default=None))

    def reconnected(self) -> None:
        self._earlier = set(self._epochs)

    def allowed(self) -> None:
        """End every stop from before the reconnection, because an action was allowed."""
        for scope in self._earlier:
            self._epochs.pop(scope, None)
        self._earlier.clear()
