"""What people are told: SafetyEvents, made of what the guards decided and operators did.

Refusals of one agent by one rule are one event per ten seconds with a count, so that a spinning
agent cannot drown the rest.
"""

import uuid
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from safetyd.core.events import (
    AnomalyFound,
    BreakerMoved,
    BudgetMarked,
    ClockStepped,
    ConfigRejected,
    Decided,
    Event,
    KeysChanged,
    Overdue,
    Paused,
    Refused,
    Resumed,
    SafeModeEntered,
    SafeModeExited,
    SafetyEvent,
    Stopped,
    Ticked,
    Unpaused,
)
from safetyd.core.policy import Configured
from safetyd.core.verdict import Severity, strictest

WINDOW_S: Final = 10.0
MAX_PER_TICK: Final = 64

_NAMESPACE: Final = uuid.UUID("5afe7d00-0000-4000-8000-000000000001")

# Refusals that have an event type of their own.
_BLOCKED: Final[dict[str, str]] = {
    "rate_limit": "RATE_LIMIT_BLOCK",
    "mode_violation": "MODE_VIOLATION",
}
_WINDOWED: Final = frozenset({"ACTION_BLOCKED", *_BLOCKED.values()})

Facts = dict[str, str | int | float | bool | None]


class Window(msgspec.Struct):
    """Refusals of one agent by one rule since the last event that told of them."""

    agent: str
    rule: str
    reason: str
    since_t: float
    count: int = 0
    kind: str = "ACTION_BLOCKED"


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
        Paused,
        Unpaused,
        SafeModeEntered,
        SafeModeExited,
        BreakerMoved,
        BudgetMarked,
        AnomalyFound,
        Overdue,
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
            case Configured(why="start") | BreakerMoved(state="half_open"):
                pass  # no news
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
            blocked = Window(event.agent, headline.rule, headline.reason, event.t, 1)
            blocked.kind = _BLOCKED.get(headline.cause, "ACTION_BLOCKED")
            return (_blocked(event, blocked),)
        window.count += 1
        return ()

    def _due(self, tick: Ticked) -> Sequence[Event]:
        ripe: list[Event] = []
        for window in self._state.windows.values():
            if tick.t < window.since_t + WINDOW_S or len(ripe) == MAX_PER_TICK:
                break
            if window.count:
                ripe.append(_blocked(tick, window))
        return ripe

    def _told(self, event: SafetyEvent) -> None:
        self._drop_quiet(event.t)
        if event.event_type in _WINDOWED:
            agent, rule = str(event.agent_id), str(event.metadata["rule"])
            self._state.windows.pop(_key(agent, rule), None)
            window = Window(agent, rule, event.reason, event.t, kind=event.event_type)
            self._state.windows[_key(agent, rule)] = window

    def _drop_quiet(self, t: float) -> None:
        windows = self._state.windows
        for key, window in tuple(windows.items()):
            if t < window.since_t + WINDOW_S:
                break
            if not window.count:
                del windows[key]


def _key(agent: str, rule: str) -> str:
    return f"{agent} {rule}"


def _blocked(cause: Event, window: Window) -> SafetyEvent:
    facts: Facts = {"rule": window.rule, "count": window.count}
    return _safety_event(cause, window.kind, window.reason, facts, window.agent)


def _told_at_once(event: Event) -> SafetyEvent:
    kind, reason, facts = _news(event)
    return _safety_event(event, kind, reason, facts, getattr(event, "agent", None))


def _news(event: Event) -> tuple[str, str, Facts]:
    """Return the type, reason and metadata of what is told of an event."""
    return _news_of_guards(event) or _news_of_people(event)


def _news_of_guards(event: Event) -> tuple[str, str, Facts] | None:
    news: tuple[str, str, Facts] | None = None
    match event:
        case Paused():
            news = "AGENT_PAUSED", event.reason, {"source": event.source, "by": event.by}
        case Unpaused():
            facts: Facts = {"sources": " ".join(event.sources), "by": event.by}
            news = "AGENT_RESUMED", event.reason, facts
        case SafeModeEntered():
            news = "SAFE_MODE_ENTERED", event.reason, {"by": event.by, "errors": event.errors}
        case SafeModeExited():
            news = "SAFE_MODE_EXITED", event.reason, {"by": event.by, "forced": event.forced}
        case BreakerMoved():
            kind = "CIRCUIT_RESET" if event.state == "closed" else "CIRCUIT_TRIPPED"
            news = kind, event.reason, {"state": event.state}
        case BudgetMarked():
            kind = "COST_WARNING" if event.mark == "warning" else "COST_BUDGET_EXCEEDED"
            news = kind, _near(event), {"scope": event.scope, "id": event.id}
        case AnomalyFound():
            facts = {"rule": event.rule, "severity": event.severity}
            news = "ANOMALY_DETECTED", event.message, facts
        case Overdue():
            reason = f"nobody reported how {event.id} went"
            news = "OUTCOME_UNKNOWN", reason, {"id": event.id}
    return news


def _near(event: BudgetMarked) -> str:
    used = event.spent + event.reserved
    return f"{event.scope} budget: ${used:.2f} of ${event.limit:.2f} used"


def _news_of_people(event: Event) -> tuple[str, str, Facts]:
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
        breaker_id=getattr(cause, "breaker", None),
        cost_snapshot=_snapshot(cause),
        reason=reason,
        metadata=facts,
    )


def _snapshot(cause: Event) -> dict[str, float | str] | None:
    if not isinstance(cause, BudgetMarked):
        return None
    return {
        "scope": cause.scope,
        "id": cause.id,
        "spent": cause.spent,
        "reserved": cause.reserved,
        "limit": cause.limit,
        "estimate": cause.estimate,
    }
