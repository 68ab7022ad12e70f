"""The emergency stop: while any source is active nobody acts, or one agent does not.

Sources are kept apart, so clearing one leaves the others: an operator, a file, an anomaly, the
environment. Every stop and resume has an epoch, which agents acknowledge.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

import msgspec

from safetyd.core.events import Event, Proposed, Resumed, Stopped
from safetyd.core.kinds import Kind
from safetyd.core.verdict import ALLOWED, Severity, Verdict

ENVIRONMENT = "environment"


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """One reason why things stand still."""

    source: str
    by: str
    reason: str
    since: datetime
    agent: str | None
    epoch: int


class StopState(msgspec.Struct):
    stops: list[Stop] = []
    epoch: int = 0


class StopGuard:
    name = "stop"
    hears: tuple[type[Event], ...] = (Stopped, Resumed)

    def __init__(self) -> None:
        self._state = StopState()

    @property
    def stops(self) -> tuple[Stop, ...]:
        """Return what is active, oldest first."""
        return tuple(self._state.stops)

    @property
    def epoch(self) -> int:
        return self._state.epoch

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:  # noqa: ARG002
        for stop in self._state.stops:
            if stop.agent is None or stop.agent == proposed.agent:
                return _verdict(stop)
        return ALLOWED

    def observe(self, event: Event) -> Sequence[Event]:
        match event:
            case Stopped():
                others = self._others(event.agent, {event.source}, event.epoch)
                self._state.stops = [*others, _stop(event)]
                self._state.epoch = max(self._state.epoch, event.epoch)
            case Resumed():
                # A stop that was pressed after this resume was asked for is newer, and holds.
                others = self._others(event.agent, set(event.sources), event.epoch)
                self._state.stops = list(others)
                self._state.epoch = max(self._state.epoch, event.epoch)
        return ()

    def save(self) -> Callable[[], bytes]:
        saved = msgspec.msgpack.encode(self._state)
        return lambda: saved

    def load(self, saved: bytes) -> None:
        self._state = msgspec.msgpack.decode(saved, type=StopState)

    def _others(self, agent: str | None, sources: set[str], epoch: int) -> Iterator[Stop]:
        for stop in self._state.stops:
            if stop.agent != agent or stop.source not in sources or stop.epoch > epoch:
                yield stop


def _stop(event: Stopped) -> Stop:
    return Stop(
        source=event.source,
        by=event.by,
        reason=event.reason,
        since=event.at,
        agent=event.agent,
        epoch=event.epoch,
    )


def _verdict(stop: Stop) -> Verdict:
    if stop.source == ENVIRONMENT:
        reason = f"disabled: {stop.reason}"
        return Verdict("stop", Severity.BLOCK, "stop.environment", reason, cause="disabled")
    rule = f"stop.{stop.source.partition(':')[0]}"
    return Verdict("stop", Severity.BLOCK, rule, describe(stop), cause="stopped")


def describe(stop: Stop) -> str:
    """Say since when and by whom, and why if a reason was given."""
    said = f"emergency stop is active since {stop.since:%H:%M}Z by {stop.by}"
    return f"{said}: {stop.reason}" if stop.reason else said
