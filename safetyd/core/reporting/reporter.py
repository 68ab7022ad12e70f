"""What people are told: SafetyEvents, made of what the guards decided and operators did.

Refusals of one agent by one rule are one event per ten seconds with a count, so that a spinning
agent cannot drown the rest.
"""

import uuid
from collections.abc import Sequence
from typing import Final

import msgspec

from safetyd.core.actor import Actor, hearing, on
from safetyd.core.events.daemon_events import (
    ClockStepped,
    ConfigRejected,
    DiskLevel,
    DiskMoved,
    KeysChanged,
    SafetyEvent,
)
from safetyd.core.events.decision_events import Asking, Decided, Overdue, Refused
from safetyd.core.events.event import Event, Ticked
from safetyd.core.events.guard_events import (
    AnomalyFound,
    BreakerMoved,
    BudgetMarked,
    BudgetRaised,
    Paused,
    Resumed,
    SafeModeEntered,
    SafeModeExited,
    Stopped,
    Unpaused,
)
from safetyd.core.events.history_events import (
    ArchiveFailed,
    CommitFailed,
    RollbackFailed,
    RollbackOffered,
    RolledBack,
    SnapshotMissed,
)
from safetyd.core.events.notification_events import ChannelMoved, NotTold
from safetyd.core.events.request_events import (
    Answered,
    Cancelled,
    Claimed,
    EscalationDenied,
    Expired,
    Granted,
    GrantRevoked,
    GrantUsed,
    Superseded,
)
from safetyd.core.messages.verdict import BLOCK, strictest
from safetyd.core.policy import Configured
from safetyd.core.reporting.disk_words import filling, fullness, percent

Facts = dict[str, str | int | float | bool | None]
WINDOW_S: Final = 10.0
MAX_PER_TICK: Final = 64
_NAMESPACE: Final = uuid.UUID("5afe7d00-0000-4000-8000-000000000001")

# Refusals that have an event type of their own.
_BLOCKED: Final[dict[str, str]] = {
    "rate_limit": "RATE_LIMIT_BLOCK",
    "mode_violation": "MODE_VIOLATION",
}

_DISK: Final[dict[DiskLevel, str]] = {
    "good": "DISK_HAS_ROOM",
    "warn": "DISK_FILLING",
    "critical": "DISK_NEARLY_FULL",
}

_WINDOWED: Final = frozenset({"ACTION_BLOCKED", *_BLOCKED.values()})


def news(event: Event) -> tuple[str, str, Facts]:
    """Return the type, reason and metadata of what is told of an event."""
    for tell in (_of_requests, _of_grants, _of_guards, _of_messages, _of_history, _of_keeping):
        if told := tell(event):
            return told
    return _of_the_daemon(event)


def _of_requests(event: Event) -> tuple[str, str, Facts] | None:
    told: tuple[str, str, Facts] | None = None
    match event:
        case Decided(asks=Asking() as asks):
            headline = strictest(event.verdicts)
            facts: Facts = {"request_id": asks.request_id, "id": event.id, "type": event.type}
            facts |= {"rule": headline.rule, "urgency": asks.urgency}
            told = "PERMISSION_REQUESTED", headline.reason, facts
        case Answered():
            told = _decided(event.request_id, event.answer, event.by, event.via, event.words)
        case Cancelled():
            told = _decided(event.request_id, "cancelled", event.by, event.via, event.reason)
        case Superseded():
            told = _decided(event.request_id, "superseded", event.agent, "bus", event.by_id)
        case Expired(request_ids=ids):
            more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
            facts = {"request_id": ids[0], "count": len(ids)}
            told = "PERMISSION_EXPIRED", f"nobody answered {ids[0]}{more} in time", facts
        case EscalationDenied():
            facts = {"request_id": event.request_id, "kind": "request", "source": event.source}
            told = "ESCALATION_DENIED", f"the pause of {event.agent} stays: {event.why}", facts
        case Claimed():
            facts = {"request_id": event.request_id, "id": event.id}
            told = "ACTION_CLAIMED", f"{event.id} is about to be done", facts
    return told


def _decided(request_id: str, end: str, by: str, via: str, words: str) -> tuple[str, str, Facts]:
    facts: Facts = {"request_id": request_id, "decision": end, "by": by, "via": via}
    return "PERMISSION_DECIDED", words, facts


def _of_grants(event: Event) -> tuple[str, str, Facts] | None:
    told: tuple[str, str, Facts] | None = None
    match event:
        case Granted():
            facts: Facts = {"grant": event.id, "by": event.by, "via": event.via}
            facts |= {"type": event.type, "rule": " ".join(event.rules), "uses": event.uses}
            facts |= {"until": event.until.isoformat(), "request_id": event.request_id}
            told = "GRANT_CREATED", event.reason, facts
        case GrantUsed():
            facts = {"grant": event.grant, "id": event.id, "left": event.left}
            told = "GRANT_USED", f"{event.grant} let {event.id} pass", facts
        case GrantRevoked():
            told = "GRANT_REVOKED", event.reason, {"grant": event.grant, "by": event.by}
    return told


def _of_guards(event: Event) -> tuple[str, str, Facts] | None:
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
            facts = {"state": event.state}
            news = kind, event.reason, facts | ({"keyless": True} if event.keyless else {})
        case BudgetMarked():
            kind = "COST_WARNING" if event.mark == "warning" else "COST_BUDGET_EXCEEDED"
            news = kind, _near(event), {"scope": event.scope, "id": event.id}
        case BudgetRaised():
            facts = {"scope": event.scope, "id": event.id, "usd": event.usd, "by": event.by}
            news = "BUDGET_RAISED", event.reason, facts
        case AnomalyFound():
            facts = {"rule": event.rule, "severity": event.severity}
            news = "ANOMALY_DETECTED", event.message, facts
        case Overdue():
            more = f" and {len(event.ids) - 1} more" if len(event.ids) > 1 else ""
            reason = f"nobody reported how {event.ids[0]}{more} went"
            news = "OUTCOME_UNKNOWN", reason, {"id": event.ids[0], "count": len(event.ids)}
    return news


def _of_messages(event: Event) -> tuple[str, str, Facts] | None:
    match event:
        case NotTold():
            facts: Facts = {"channel": event.channel, "delivery": event.delivery}
            return "NOTIFICATION_FAILED", event.error, {**facts, "state": event.state}
        case ChannelMoved(up=True):
            reason = "the channel takes messages again"
            return "CHANNEL_UP", reason, {"channel": event.channel}
        case ChannelMoved():
            return "CHANNEL_DOWN", event.why, {"channel": event.channel}
    return None


def _near(event: BudgetMarked) -> str:
    used = event.spent + event.reserved
    return f"{event.scope} budget: ${used:.2f} of ${event.limit:.2f} used"


def _of_history(event: Event) -> tuple[str, str, Facts] | None:
    match event:
        case CommitFailed():
            facts: Facts = {"project": event.project, "id": event.id}
            return "COMMIT_FAILED", event.error, facts
        case RollbackOffered():
            offered = f"{event.errors} actions in a row failed in project {event.project}"
            facts = {"project": event.project, "errors": event.errors, "commit": event.commit}
            return "ROLLBACK_OFFERED", offered, facts
        case RolledBack():
            facts = {"project": event.project, "kind": event.kind, "commit": event.commit}
            facts |= {"kept": event.kept, "files": event.files, "by": event.by}
            facts["made"] = event.made
            facts["agents"] = " ".join(event.agents)
            return "ROLLED_BACK", event.reason, facts
        case RollbackFailed():
            facts = {"project": event.project, "commit": event.commit, "by": event.by}
            facts["half"] = event.half
            return "ROLLBACK_FAILED", event.error, {**facts, "agents": " ".join(event.agents)}
    return None


def _of_keeping(event: Event) -> tuple[str, str, Facts] | None:
    match event:
        case ArchiveFailed():
            return "ARCHIVE_FAILED", f"{event.week}: {event.error}", {"week": event.week}
        case SnapshotMissed():
            return "SNAPSHOT_MISSING", f"{event.days}: {event.error}", {"day": event.day}
    return None


def _of_the_daemon(event: Event) -> tuple[str, str, Facts]:
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
        case DiskMoved(use=use):
            reason = "; ".join(filter(None, (fullness(use), filling(use))))
            facts = {"disk": use.disk, "percent": percent(use), "free_bytes": use.free_bytes}
            news = _DISK[use.level], reason, facts
        case _:
            raise TypeError(f"the reporter does not tell of {type(event).__name__}")
    return news


def _changes(event: KeysChanged) -> str:
    changes = [f"added {key}" for key in event.added] + [f"removed {key}" for key in event.removed]
    return "; ".join(changes)


class RefusalWindow(msgspec.Struct):
    """Refusals of one agent by one rule since the last event that told of them."""

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
        at_once = (on(kind, self._tell) for kind in Event.__subclasses__() if kind.told)
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
            blocked = RefusalWindow(event.agent, headline.rule, headline.reason, event.t, 1)
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
