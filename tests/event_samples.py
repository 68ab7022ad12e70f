"""One sample of each event in the journal."""

from collections.abc import Iterator
from typing import Any

from safetyd.core.engine.engine import Engine
from safetyd.core.events.cluster_events import (
    StandbysChanged,
    TakeoversRepeated,
    TookOver,
    WriterChanged,
    WriterReleased,
)
from safetyd.core.events.daemon_events import (
    AuditRecovered,
    ClockStepped,
    ConfigRejected,
    DiskMoved,
    DiskUse,
    KeysChanged,
    SafetyEvent,
)
from safetyd.core.events.decision_events import (
    Overdue,
    Refused,
    Reported,
    SessionClosed,
    Settled,
    Transcribed,
    Withheld,
)
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import (
    AnomalyFound,
    BreakerMoved,
    BudgetMarked,
    BudgetRaised,
    CostStruck,
    Forgotten,
    HostFilesAccepted,
    HostUnasked,
    LargeReport,
    Paused,
    PersonSeen,
    SafeModeEntered,
    SafeModeExited,
    Unpaused,
)
from safetyd.core.events.history_events import (
    ArchiveFailed,
    BackupMade,
    CommitDue,
    CommitFailed,
    Committed,
    RollbackBegun,
    RollbackCancelled,
    RollbackFailed,
    RollbackOffered,
    RolledBack,
    SnapshotMissed,
    SnapshotTaken,
    WeekArchived,
)
from safetyd.core.events.notification_events import (
    Announced,
    ChannelMoved,
    Climbed,
    Due,
    Item,
    LinkOpened,
    LinkRevoked,
    Note,
    NotTold,
    Round,
    RoundDue,
    Told,
    Unparked,
)
from safetyd.core.events.request_events import (
    Answered,
    Cancelled,
    Claimed,
    Deferred,
    DenialLifted,
    EscalationDenied,
    Expired,
    Granted,
    GrantEnded,
    GrantRevoked,
    GrantUsed,
    Lapsed,
    Learned,
    Released,
    Superseded,
)
from safetyd.core.events.rota_events import DatedShift, DutyChanged, RotaRead, RotaUnread
from safetyd.core.messages.proposal import Target, Tokens
from safetyd.core.messages.telemetry import (
    Commit,
    EpisodeEnded,
    Heartbeat,
    Iteration,
    Metrics,
    Outcome,
    Rollback,
    SessionEnded,
    SessionStarted,
    Unreported,
)
from safetyd.core.messages.transcript import Entry, Transcript, Usage
from safetyd.core.policy import Configured, Policy
from tests.story import at, play, propose, resume, stop


def one_of_each() -> Iterator[Event]:
    when: dict[str, Any] = {"at": at(1), "t": 1.0}
    policy = Policy()
    yield from play(
        Engine(policy),
        propose(1, cost_usd=0.5, paths=("a", "b"), confidence=0.4, resolved=("/c",)),
        propose(2, id="p2", type="run_shell", text="rm -rf /"),
        propose(3, id="p3", type="type", text="hunter2", target=Target(label="Password")),
        stop(4, agent="code"),
        resume(5, agent="code"),
    )
    yield Configured(policy=policy, digest=policy.digest(), version="0", why="start", **when)
    yield Refused(agent="a", cause="malformed", count=3, example="not JSON", **when)
    yield Withheld(agent="a", id="p1", why="late", **when)
    yield Forgotten(agent="a", by="alice", session="s", **when)
    yield SessionClosed(agent="a", session="s", why="idle", **when)
    yield Settled(agent="a", ok=True, id="p1", tokens=Tokens(input=1), **when)
    yield Overdue(agent="a", ids=("p1",), **when)
    yield from _of_people()
    yield from _of_messages()
    yield Paused(agent="a", source="operator", by="alice", **when)
    yield Unpaused(agent="a", sources=("operator",), by="alice", **when)
    yield SafeModeEntered(agent="a", by="safetyd", errors=3, **when)
    yield SafeModeExited(agent="a", by="alice", forced=True, **when)
    yield BreakerMoved(breaker="api", state="open", reason="5 failures in a row", **when)
    yield BudgetMarked(
        mark="warning",
        scope="day",
        id="2026-03-01",
        spent=40.0,
        reserved=1.0,
        limit=50.0,
        estimate=0.5,
        **when,
    )
    yield from (
        BudgetRaised(scope="agent", id="a", usd=5.0, by="alice", reason="r", **when),
        LargeReport(agent="a", id="7", usd=9e8, counted_usd=25.0, why="share", **when),
        CostStruck(agent="a", id="7", usd=9e8, by="alice", reason="r", **when),
        AnomalyFound(rule="anomaly.x", severity="low", message="m", agent="a", **when),
        HostUnasked(agent="a", host="claude", tools=("Bash",), session="s", **when),
        HostFilesAccepted(host="claude", states={"/srv": "9f86"}, by="alice", **when),
    )
    yield PersonSeen(by="alice", how="ack", **when)
    yield KeysChanged(added=("agent a U1",), removed=(), by="alice", **when)
    yield ConfigRejected(errors=("web.port is -1",), **when)
    yield ClockStepped(seconds=-7.5, **when)
    yield AuditRecovered(file="audit-00000001.jsonl", torn_bytes=7, torn_sha256="0" * 64, **when)
    use = DiskUse(level="warn", disk="/", free_bytes=1, total_bytes=9, parts={"audit": 2})
    yield DiskMoved(use=use, **when)
    yield from (*_of_cluster(), *_of_history())
    yield SafetyEvent(**when, **event_fields())
    for telemetry in (
        Outcome(ok=True, id="p1"),
        SessionStarted(session="s"),
        SessionEnded(session="s"),
        EpisodeEnded(episode="e"),
        Iteration(),
        Metrics(error_rate=0.5),
        Heartbeat(stop_epoch=1),
        Commit(ref="4f2a"),
        Rollback(ref="4f2a"),
        Unreported(id="0b7c"),
    ):
        yield Reported(agent="a", telemetry=telemetry, **when)


def _of_cluster() -> Iterator[Event]:
    when: dict[str, Any] = {"at": at(1), "t": 1.0}
    yield WriterChanged(term=2, daemon="b", version="0.1.0", **when)
    yield TookOver(term=2, daemon="b", before="a", **when)
    yield WriterReleased(term=2, daemon="b", by="SIGTERM", **when)
    yield TakeoversRepeated(count=3, **when)
    yield StandbysChanged(standbys=(), gone=("a",), **when)


def _of_history() -> Iterator[Event]:
    """Yield events of the file history."""
    when: dict[str, Any] = {"at": at(1), "t": 1.0}
    about: dict[str, Any] = {"project": "shop", "commit": "4f2a", **when}
    yield CommitDue(project="shop", why="after", agent="a", id="p1", decision=7, **when)
    yield Committed(why="after", agent="a", session="s", id="p1", files=2, added=9, **about)
    yield CommitFailed(project="shop", error="the index is locked", agent="a", id="p1", **when)
    yield RollbackOffered(agent="a", errors=3, **about)
    yield RollbackBegun(kind="soft", by="alice", agents=("a",), reason="r", **about)
    yield RollbackCancelled(by="alice", why="there was nothing to change", **about)
    yield RollbackFailed(error="the index is locked", agents=("a",), half=True, **about)
    yield RolledBack(kind="soft", kept="77ab", by="alice", agents=("a",), reason="r", **about)
    yield SnapshotTaken(day="2026-03-01", files=3, size=4096, **when)
    yield SnapshotMissed(day="2026-03-02", error="the disk is full", **when)
    yield BackupMade(by="alice", upto=7, size=4096, keys=True, **when)
    yield WeekArchived(week="2026-W09", size=4096, **when)
    yield ArchiveFailed(week="2026-W10", error="the disk is not there", **when)


def _of_people() -> Iterator[Event]:
    """Yield events of requests."""
    when: dict[str, Any] = {"at": at(1), "t": 1.0}
    about: dict[str, Any] = {"request_id": "req_1", **when}
    yield Answered(agent="a", id="p1", answer="approved", by="alice", via="cli", **about)
    linked: dict[str, Any] = {"assurance": "code", "delivery": "dlv_1", "peer": "192.0.2.1 Firefox"}
    yield Answered(
        agent="a", id="p1", answer="denied", by="alice", via="link:email", **linked, **about
    )
    yield Released(agent="a", id="p1", **about)
    yield Expired(request_ids=("req_1",), **when)
    yield Cancelled(by="alice", via="cli", **about)
    yield Superseded(agent="a", by_id="p2", **about)
    yield Deferred(by="alice", until=at(2), **about)
    yield DenialLifted(agent="a", by="alice", **about)
    yield Claimed(agent="a", id="p1", claimant="worker-1", **about)
    yield Lapsed(request_ids=("req_1",), **when)
    yield EscalationDenied(agent="a", source="anomaly", why="denied", **about)
    made: dict[str, Any] = {
        "id": "grant_1",
        "agent": "a",
        "by": "alice",
        "via": "cli",
        "reason": "a busy day",
    }
    yield Granted(**made, uses=3, until=at(9), type="push", **when)
    learned = Learned(suggestion="sug_1", shape="acmectl lint", approved=10, since=at(0))
    yield Granted(**made, uses=3, until=at(9), learned=learned, **when)
    yield GrantUsed(grant="grant_1", agent="a", id="p1", left=2, **when)
    yield GrantRevoked(grant="grant_1", agent="a", by="alice", **when)
    yield GrantRevoked(grant="grant_2", agent="a", by="bob", request_id="req_1", **when)
    yield GrantEnded(grants=("grant_1",), **when)
    yield Transcribed(transcript=_transcript(), **when)


def _of_messages() -> Iterator[Event]:
    """Yield events of notifications."""
    when: dict[str, Any] = {"at": at(1), "t": 1.0}
    sent: dict[str, Any] = {"delivery": "dlv_1", "channel": "email", **when}
    items = (Item("request", "req_1"), Item("reminder", "req_2", step=1))
    yield Due(
        recipient="alice",
        urgency="normal",
        items=items,
        more=2,
        left=3,
        digest=True,
        held_back=1,
        expires=at(9),
        **sent,
    )
    yield Told(state="accepted", provider_id="250 ok", attempts=2, took_s=0.5, **sent)
    yield NotTold(state="dead", error="550 no such user", attempts=3, by="alice", **sent)
    yield Unparked(deliveries=("dlv_1",), by="alice", **when)
    yield ChannelMoved(channel="email", up=False, why="connection refused", **when)
    yield Climbed(steps=(Item("last_call", "req_1", step=2),), **when)
    yield RoundDue(rounds=(Round("alice", ("req_1", "req_2")),), **when)
    yield LinkOpened(delivery="dlv_1", recipient="alice", request_ids=("req_1",), **when)
    note = Note(id="note_1", kind="test", urgency="normal", title="Test", text="a test", at=at(1))
    yield Announced(note=note, recipients=("alice",), channels=("email",), **when)
    yield LinkRevoked(
        delivery="dlv_1", request_id="req_1", recipient="alice", why="five wrong codes", **when
    )
    shifts = (DatedShift("alice", at(0), at(8)),)
    yield RotaRead(
        calendar="oncall.ics", shifts=shifts, until=at(9), unmatched=("Vacation",), **when
    )
    yield RotaUnread(calendar="oncall.ics", why="No such file or directory", **when)
    yield DutyChanged(on=("bob",), off=("alice",), **when)


def _transcript() -> Transcript:
    return Transcript(
        session_id="s",
        agent="a",
        started_at=at(0),
        ended_at=at(1),
        why="ended",
        provider=None,
        model="m",
        token_usage=Usage(input=1),
        actions=(Entry("push", tier="requires_permission", status="pending"),),
        left_out=0,
        pending_permissions=1,
        scheduled_next=None,
        budget_remaining_percent=90,
    )


def event_fields() -> dict[str, Any]:
    return {
        "id": "5afe7d00-0000-4000-8000-000000000001",
        "timestamp": at(1),
        "event_type": "COST_WARNING",
        "agent_id": "code",
        "model_id": "gpt-5.2",
        "breaker_id": "shell",
        "cost_snapshot": {"day": 41.5, "limit": 50.0, "scope": "day"},
        "reason": "80 % of the day's budget are spent",
        "metadata": {"ratio": 0.83, "count": 1, "final": False, "by": None, "rule": "budget.day"},
    }
