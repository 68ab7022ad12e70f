"""What people are told: SafetyEvents, made of what the guards decided and operators did.

Refusals of one agent by one rule are one event per ten seconds with a count, so that a spinning
agent cannot drown the rest.
"""

import uuid
from collections.abc import Sequence
from typing import Final

import msgspec

from safetyd.core.actor import Actor, hearing, on
from safetyd.core.events.decision_events import (
    AnomalyFound,
    Answered,
    BreakerMoved,
    BudgetMarked,
    BudgetRaised,
    Cancelled,
    Claimed,
    ClockStepped,
    ConfigRejected,
    Decided,
    EscalationDenied,
    Event,
    Expired,
    KeysChanged,
    Overdue,
    Paused,
    Refused,
    Resumed,
    SafeModeEntered,
    SafeModeExited,
    SafetyEvent,
    Stopped,
    Superseded,
    Ticked,
    Unpaused,
)
from safetyd.core.events.notification_events import ChannelMoved, NotTold
from safetyd.core.events.request_events import Granted, GrantRevoked, GrantUsed
from safetyd.core.messages.verdict import BLOCK, strictest
from safetyd.core.policy import Configured
from safetyd.core.reporting.news import Facts, news

WINDOW_S: Final = 10.0
MAX_PER_TICK: Final = 64

_NAMESPACE: Final = uuid.UUID("5afe7d00-0000-4000-8000-000000000001")

# Refusals that have an event type of their own.
_BLOCKED: Final[dict[str, str]] = {
    "rate_limit": "RATE_LIMIT_BLOCK",
    "mode_violation": "MODE_VIOLATION",
}
_WINDOWED: Final = frozenset({"ACTION_BLOCKED", *_BLOCKED.values()})


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


TOLD_AT_ONCE: Final[tuple[type[Event], ...]] = (
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
    BudgetRaised,
    AnomalyFound,
    Overdue,
    Answered,
    Cancelled,
    Superseded,
    Expired,
    Claimed,
    EscalationDenied,
    Granted,
    GrantUsed,
    GrantRevoked,
    NotTold,
    ChannelMoved,
)


class Reporter(Actor):
    name = "reporter"
    _state: ReporterState

    def __init__(self) -> None:
        self._state = ReporterState()
        at_once = (on(kind, self._tell) for kind in TOLD_AT_ONCE)
        self.hears = hearing(
            on(Decided, self._decided),
            on(SafetyEvent, self._told),
            on(Ticked, self._due),
            *at_once,
        )

    def _decided(self, event: Decided) -> Sequence[Event]:
        if event.decision is BLOCK:
            return self._blocked(event)
        asks = event.asks
        return () if asks is None or asks.joins else (_told_at_once(event),)

    def _tell(self, event: Event) -> Sequence[Event]:
        match event:
            case Configured(why="start") | BreakerMoved(state="half_open"):
                return ()  # no news
            case NotTold(state="cancelled" | "expired" | "quiet"):
                return ()  # nobody needs it any more, or not yet
        return (_told_at_once(event),)

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
    kind, reason, facts = news(event)
    return _safety_event(event, kind, reason, facts, getattr(event, "agent", None))


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
