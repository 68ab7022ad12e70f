"""The emergency stop: while a source is active, it blocks all actions, or those of one agent.

Sources (an operator, a file, an anomaly, the environment) are cleared separately. Every stop and
resume has an epoch, which agents acknowledge.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from safetyd.core.action_types import Kind
from safetyd.core.actor import Guard, hearing, on
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import Resumed, Stopped
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict, all_of

ENVIRONMENT = "environment"


def no_reason(path: str) -> str:
    """Return the reason of a stop by a file that gives none."""
    return f"{path} exists"


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """One active stop."""

    source: str
    by: str
    reason: str
    since: datetime
    agent: str | None
    epoch: int


class StopState(msgspec.Struct):
    stops: list[Stop] = []
    epoch: int = 0


class StopGuard(Guard):
    name = "stop"
    _state: StopState

    def __init__(self) -> None:
        self._state = StopState()
        self.hears = hearing(on(Stopped, self._stopped), on(Resumed, self._resumed))

    @property
    def stops(self) -> tuple[Stop, ...]:
        """Return the active stops, oldest first."""
        return tuple(self._state.stops)

    @property
    def epoch(self) -> int:
        return self._state.epoch

    def holds_alone(self, agent: str) -> bool:
        """Return whether an agent itself is stopped."""
        return any(stop.agent == agent for stop in self._state.stops)

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:  # noqa: ARG002
        if not self._state.stops:
            return ALLOWED
        held = self._holding(proposed.agent)
        return _verdict(held) if held else ALLOWED

    def now(self, decided: Decided, moment: Moment) -> str:  # noqa: ARG002
        return "; ".join(map(describe, self._holding(decided.agent))) or "none"

    def _holding(self, agent: str) -> list[Stop]:
        return [stop for stop in self._state.stops if stop.agent is None or stop.agent == agent]

    def _stopped(self, event: Stopped) -> None:
        others = self._others(event.agent, {event.source}, event.epoch)
        self._state.stops = [*others, as_stop(event)]
        self._state.epoch = max(self._state.epoch, event.epoch)

    def _resumed(self, event: Resumed) -> None:
        # A stop that is newer than this resume stays active.
        others = self._others(event.agent, set(event.sources), event.epoch)
        self._state.stops = list(others)
        self._state.epoch = max(self._state.epoch, event.epoch)

    def _others(self, agent: str | None, sources: set[str], epoch: int) -> Iterator[Stop]:
        for stop in self._state.stops:
            if stop.agent != agent or stop.source not in sources or stop.epoch > epoch:
                yield stop


def as_stop(event: Stopped) -> Stop:
    """Return the stop that an event starts."""
    return Stop(
        source=event.source,
        by=event.by,
        reason=event.reason,
        since=event.at,
        agent=event.agent,
        epoch=event.epoch,
    )


def daemon_of(source: str) -> str:
    """Return the daemon of several whose stop file or environment this is, if any."""
    kind, _, place = source.partition(":")
    if kind == ENVIRONMENT:
        return place
    return place.rpartition(" on ")[2] if kind == "file" and " on " in place else ""


def _verdict(stops: Sequence[Stop]) -> Verdict:
    """Return one verdict for all stops. The oldest gives the reason, and all must end."""
    stop, remedy = stops[0], all_of(map(_ending, stops))
    kind = stop.source.partition(":")[0]
    if kind == ENVIRONMENT:
        return Verdict(
            "stop",
            Severity.BLOCK,
            "stop.environment",
            f"disabled: {stop.reason}",
            cause="disabled",
            remedy=remedy,
        )
    rule = f"stop.{kind}"
    return Verdict("stop", Severity.BLOCK, rule, describe(stop), cause="stopped", remedy=remedy)


def _ending(stop: Stop) -> str:
    kind, _, path = stop.source.partition(":")
    if kind == "file":
        return f"after {path} is removed"
    if kind == ENVIRONMENT:
        return f"after a restart without {stop.reason}"
    whose = f" --agent {stop.agent}" if stop.agent else ""
    return f"after `safetyd resume{whose}`"


def describe(stop: Stop) -> str:
    """Describe who caused the stop, when, and the reason if there is one."""
    said = f"emergency stop is active since {stop.since:%H:%M}Z by {stop.by}"
    return f"{said}: {stop.reason}" if stop.reason else said
