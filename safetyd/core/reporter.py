"""What people are told: SafetyEvents, made of what the guards decided and operators did.

Refusals of one agent by one rule are one event per ten seconds with a count, so that a spinning
agent cannot drown the rest.
"""

import uuid
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from safetyd.core.events import (
    ClockStepped,
    ConfigRejected,
    Decided,
    Event,
    KeysChanged,
    Refused,
    Resumed,
    SafetyEvent,
    Stopped,
    Ticked,
)
from safetyd.core.policy import Configured
from safetyd.core.verdict import Severity, strictest

WINDOW_S: Final = 10.0
MAX_PER_TICK: Final = 64

_NAMESPACE: Final = uuid.UUID("5afe7d00-0000-4000-8000-000000000001")

Facts = dict[str, str | int | float | bool | None]


class Window(msgspec.Struct):
    """Refusals of one agent by one rule since the last event that told of them."""

    agent: str
    rule: str
    reason: str
    since_t: float
    count: int = 0


class ReporterState(msgspec.Struct):
    windows: dict[str, Window] = {}  # by agent and rule, oldest first


class Reporter:
    name = "reporter"
    hears: tuple[type[Event], ...] = (
        Decided,
        Refused,
        Stopped,
        Resumed,
        Configured,
        ConfigRejected,
        KeysChanged,
        ClockStepped,
        SafetyEvent,
        Ticked,
    )

    def __init__(self) -> None:
        self._state = ReporterState()

    def observe(self, event: Event) -> Sequence[Event]:
        match event:
            case Decided():
                if event.decision is Severity.BLOCK and event.first:
                    return self._blocked(event)
            case SafetyEvent():
                self._told(event)
            case Ticked():
                return self._due(event)
            case Configured(why="start"):
                pass  # a start is no news
            case _:
                return (_told_at_once(event),)
        return ()

    def save(self) -> Callable[[], bytes]:
        saved = msgspec.msgpack.encode(self._state)
        return lambda: saved

    def load(self, saved: bytes) -> None:
        self._state = msgspec.msgpack.decode(saved, type=ReporterState)

    def _blocked(self, event: Decided) -> Sequence[Event]:
        headline = strictest(event.verdicts)
        window = self._state.windows.get(_key(event.agent, headline.rule))
        if window is None:
            return (_action_blocked(event, event.agent, headline.rule, headline.reason, 1),)
        window.count += 1
        return ()

    def _due(self, tick: Ticked) -> Sequence[Event]:
        ripe: list[Event] = []
        for window in self._state.windows.values():
            if tick.t < window.since_t + WINDOW_S or len(ripe) == MAX_PER_TICK:
                break
            if window.count:
                ripe.append(
                    _action_blocked(tick, window.agent, window.rule, window.reason, window.count)
                )
        return ripe

    def _told(self, event: SafetyEvent) -> None:
        self._drop_quiet(event.t)
        if event.event_type == "ACTION_BLOCKED":
            agent, rule = str(event.agent_id), str(event.metadata["rule"])
            self._state.windows.pop(_key(agent, rule), None)
            self._state.windows[_key(agent, rule)] = Window(agent, rule, event.reason, event.t)

    def _drop_quiet(self, t: float) -> None:
        windows = self._state.windows
        for key, window in tuple(windows.items()):
            if t < window.since_t + WINDOW_S:
                break
            if not window.count:
                del windows[key]


def _key(agent: str, rule: str) -> str:
    return f"{agent} {rule}"


def _action_blocked(cause: Event, agent: str, rule: str, reason: str, count: int) -> SafetyEvent:
    return _safety_event(cause, "ACTION_BLOCKED", reason, {"rule": rule, "count": count}, agent)


def _told_at_once(event: Event) -> SafetyEvent:
    kind, reason, facts = _news(event)
    return _safety_event(event, kind, reason, facts, getattr(event, "agent", None))


def _news(event: Event) -> tuple[str, str, Facts]:
    """Return the type, reason and metadata of what is told of an event."""
    news: tuple[str, str, Facts]
    match event:
        case Refused(cause=cause):
            kind = "RATE_LIMIT_BLOCK" if cause == "rate_limit" else "ACTION_BLOCKED"
            news = kind, event.example, {"rule": f"intake.{cause}", "count": event.count}
        case Stopped():
            facts: Facts = {"source": event.source, "by": event.by, "epoch": event.epoch}
            news = "EMERGENCY_STOP", event.reason, facts
        case Resumed():
            facts = {"sources": " ".join(event.sources), "by": event.by, "epoch": event.epoch}
            news = "EMERGENCY_RESUME", event.reason, facts
        case Configured():
            news = "CONFIG_RELOADED", "a new configuration is in force", {"policy": event.digest}
        case ConfigRejected(errors=errors):
            news = "CONFIG_REJECTED", "; ".join(errors), {"errors": len(errors)}
        case KeysChanged():
            news = "KEYS_CHANGED", _changes(event), {"by": event.by}
        case ClockStepped(seconds=seconds):
            stepped = f"the wall clock stepped by {seconds:+.1f} s"
            news = "CLOCK_STEPPED", stepped, {"seconds": seconds}
        case _:
            raise TypeError(f"the reporter does not tell of {type(event).__name__}")
    return news


def _changes(event: KeysChanged) -> str:
    changes = [f"added {key}" for key in event.added] + [f"removed {key}" for key in event.removed]
    return "; ".join(changes)


def _safety_event(
    cause: Event, kind: str, reason: str, facts: Facts, agent: str | None = None
) -> SafetyEvent:
    name = f"{cause.at.isoformat()} {cause.t} {kind} {agent} {reason} {facts}"
    return SafetyEvent(
        at=cause.at,
        t=cause.t,
        id=str(uuid.uuid5(_NAMESPACE, name)),
        timestamp=cause.at,
        event_type=kind,
        agent_id=agent,
        reason=reason,
        metadata=facts,
    )
