"""The stop outside the engine: set at once, without waiting for anything.

It can only forbid. The engine's own stop guard decides what is recorded; the latch is what intake
and the sender look at, so that a stop holds while the journal cannot be written.
"""

from collections.abc import Iterable

from safetyd.core.guards.stop import Stop


class Latch:
    """Which stops are in force, by source and scope."""

    def __init__(self) -> None:
        self._stops: dict[tuple[str | None, str], Stop] = {}
        self.epoch = 0
        self.unwritten = 0  # stops that the journal does not hold yet

    @property
    def stops(self) -> tuple[Stop, ...]:
        return tuple(self._stops.values())

    def holds(self, agent: str) -> Stop | None:
        """Return what forbids this agent to act, if anything does."""
        if not self._stops:
            return None
        return next((s for s in self._stops.values() if s.agent in (None, agent)), None)

    def next_epoch(self) -> int:
        self.epoch += 1
        return self.epoch

    def set(self, stop: Stop) -> None:
        self._stops[stop.agent, stop.source] = stop
        self.epoch = max(self.epoch, stop.epoch)

    def find(self, source: str, agent: str | None = None) -> Stop | None:
        return self._stops.get((agent, source))

    def has(self, source: str, agent: str | None = None) -> bool:
        return (agent, source) in self._stops

    def clear(self, sources: Iterable[str], epoch: int, agent: str | None = None) -> None:
        """Let go of what was in force at `epoch`; a newer stop of the same source holds."""
        for source in sources:
            stop = self._stops.get((agent, source))
            if stop is not None and stop.epoch < epoch:
                del self._stops[agent, source]
