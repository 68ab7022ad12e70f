"""Makes SafetyEvents from decisions of guards and actions of operators.

Refusals of one agent by one rule within ten seconds share one event with a count. An agent in a
loop therefore cannot hide other events.
"""

import uuid
from collections.abc import Sequence
from typing import Final

import msgspec

from safetyd.core.actor import Actor, hearing, on
from safetyd.core.catalogue.catalogue import CATALOGUE
from safetyd.core.catalogue.decision_entries import BLOCKS
from safetyd.core.catalogue.entry import Facts
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event, Ticked
from safetyd.core.events.guard_events import BudgetMarked
from safetyd.core.messages.verdict import ALLOW, ASK, strictest

WINDOW_S: Final = 10.0
MAX_PER_TICK: Final = 64
_NAMESPACE: Final = uuid.UUID("5afe7d00-0000-4000-8000-000000000001")

_WINDOWED: Final = frozenset(notice.type for notice in BLOCKS.values())


class RefusalWindow(msgspec.Struct):
    """Refusals of one agent by one rule since the last event about them."""

    agent: str
    rule: str
    reason: str
    since_t: float
    count: int = 0
    kind: str = "ACTION_BLOCKED"


class ReporterState(msgspec.Struct):
    windows: dict[str, RefusalWindow] = {}  # by agent and rule, oldest first


class Reporter(Actor):
    name = "reporter"
    _state: ReporterState

    def __init__(self) -> None:
        self._state = ReporterState()
        at_once = (on(kind, _notify) for kind, entry in CATALOGUE.items() if entry.notice)
        self.hears = hearing(
            *at_once,
            on(Decided, self._decided),
            on(SafetyEvent, self._told),
            on(Ticked, self._due),
        )

    def _decided(self, event: Decided) -> Sequence[Event]:
        if event.decision is ALLOW:
            return ()
        rule = strictest(event.verdicts).rule
        window = self._state.windows.get(_key(event.agent, rule))
        if event.decision is ASK or window is None:
            return _notify(event)
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
            window = RefusalWindow(agent, rule, event.reason, event.t, kind=event.event_type)
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


def _blocked(cause: Event, window: RefusalWindow) -> SafetyEvent:
    facts: Facts = {"rule": window.rule, "count": window.count}
    return _safety_event(cause, window.kind, window.reason, facts, window.agent)


def _notify(event: Event) -> Sequence[Event]:
    """Return the SafetyEvent of an event, if it has one."""
    entry = CATALOGUE[type(event)]
    notice = entry.notice_of(event)
    if notice is None:
        return ()
    reason, facts = entry.reason_of(event), entry.facts_of(event)
    agent = getattr(event, "agent", None)
    return (_safety_event(event, notice.type, reason, facts, agent, _model(event)),)


def _model(event: Event) -> str | None:
    """Return the model that an event is about."""
    match event:
        case Decided():
            return event.proposal.model
        case BudgetMarked(scope="model"):
            return event.id
    return None


def _safety_event(
    cause: Event,
    kind: str,
    reason: str,
    facts: Facts,
    agent: str | None = None,
    model: str | None = None,
) -> SafetyEvent:
    name = f"{cause.at.isoformat()} {cause.t} {kind} {agent} {reason} {facts}"
    return SafetyEvent(
        at=cause.at,
        t=cause.t,
        id=str(uuid.uuid5(_NAMESPACE, name)),
        timestamp=cause.at,
        event_type=kind,
        agent_id=agent,
        model_id=model,
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
