import uuid
from collections.abc import Sequence
from typing import Literal

import pytest
from msgspec.structs import replace

from safetyd.core.engine.engine import Engine
from safetyd.core.events.daemon_events import (
    AuditRecovered,
    ClockStepped,
    ConfigRejected,
    DiskMoved,
    DiskUse,
    KeysChanged,
    SafetyEvent,
)
from safetyd.core.events.decision_events import Overdue, Refused
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import (
    AnomalyFound,
    BreakerMoved,
    BudgetMarked,
    Paused,
    SafeModeEntered,
    SafeModeExited,
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
from safetyd.core.events.request_events import Claimed
from safetyd.core.guards.rate.rate import RateConfig
from safetyd.core.policy import Configured, Policy
from safetyd.core.reporting.reporter import MAX_PER_TICK, Reporter
from tests.story import at, play, propose, resume, stop, tick

DISK = DiskUse(level="warn", disk="/", free_bytes=1, total_bytes=9)


def told(events: Sequence[Event]) -> list[SafetyEvent]:
    return [event for event in events if isinstance(event, SafetyEvent)]


def marked(mark: Literal["warning", "exceeded"]) -> BudgetMarked:
    return BudgetMarked(
        at=at(0),
        t=0,
        mark=mark,
        scope="day",
        id="2026-03-01",
        spent=39.0,
        reserved=1.0,
        limit=50.0,
        estimate=0.5,
    )


def blocked(t: float, n: int, agent: str = "code"):
    return propose(t, agent=agent, id=f"p{n}", type="run_shell", text="rm -rf /")


def test_first_block_is_told_at_once() -> None:
    (event,) = told(play(Engine(Policy()), blocked(0, 1)))

    assert (event.event_type, event.agent_id) == ("ACTION_BLOCKED", "code")
    assert event.metadata == {"rule": "gate.blocklist:rm_rf", "count": 1}
    assert str(uuid.UUID(event.id)) == event.id


def test_further_blocks_of_ten_seconds_are_one_event_with_a_count() -> None:
    engine = Engine(Policy())
    play(engine, *(blocked(n, n) for n in range(5)))

    assert told(play(engine, tick(9.9))) == []
    (event,) = told(play(engine, tick(10)))
    assert event.metadata["count"] == 4


def test_quiet_window_is_dropped_and_the_next_block_is_told_at_once() -> None:
    engine = Engine(Policy())
    play(engine, blocked(0, 1), blocked(20, 2, "ops"))

    assert len(told(play(engine, blocked(21, 3)))) == 1


def test_window_with_a_count_waits_for_its_tick() -> None:
    engine = Engine(Policy())
    play(engine, blocked(0, 1), blocked(1, 2), blocked(20, 3, "ops"))

    (event,) = told(play(engine, tick(21)))
    assert (event.agent_id, event.metadata["count"]) == ("code", 1)


def test_one_tick_tells_of_a_bounded_number() -> None:
    engine = Engine(Policy())
    agents = [f"a{n}" for n in range(MAX_PER_TICK + 1)]
    play(engine, *(blocked(0, 1, agent) for agent in agents))
    play(engine, *(blocked(1, 2, agent) for agent in agents))

    assert len(told(play(engine, tick(10)))) == MAX_PER_TICK
    assert len(told(play(engine, tick(10)))) == 1


def test_quiet_windows_are_passed_over_on_a_tick() -> None:
    engine = Engine(Policy())
    play(engine, blocked(0, 1, "ops"), blocked(0, 1), blocked(1, 2))

    (event,) = told(play(engine, tick(12)))
    assert event.agent_id == "code"


def test_dry_run_is_not_reported() -> None:
    events = play(Engine(Policy()), propose(0, type="run_shell", text="rm -rf /", dry_run=True))

    assert told(events) == []


@pytest.mark.req("S1.29")
@pytest.mark.req("S1.30")
@pytest.mark.req("S1.34")
@pytest.mark.req("S1.32")
@pytest.mark.req("S1.33")
@pytest.mark.req("S1.2")
@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (stop(0), "EMERGENCY_STOP"),
        (resume(0), "EMERGENCY_RESUME"),
        (ClockStepped(at=at(0), t=0, seconds=-7.5), "CLOCK_STEPPED"),
        (DiskMoved(at=at(0), t=0, use=replace(DISK, level="good")), "DISK_HAS_ROOM"),
        (DiskMoved(at=at(0), t=0, use=DISK), "DISK_FILLING"),
        (DiskMoved(at=at(0), t=0, use=replace(DISK, level="critical")), "DISK_NEARLY_FULL"),
        (ConfigRejected(at=at(0), t=0, errors=("a", "b")), "CONFIG_REJECTED"),
        (Paused(at=at(0), t=0, agent="a", source="operator", by="x"), "AGENT_PAUSED"),
        (Unpaused(at=at(0), t=0, agent="a", sources=("operator",), by="x"), "AGENT_RESUMED"),
        (SafeModeEntered(at=at(0), t=0, agent="a", by="x"), "SAFE_MODE_ENTERED"),
        (SafeModeExited(at=at(0), t=0, agent="a", by="x"), "SAFE_MODE_EXITED"),
        (BreakerMoved(at=at(0), t=0, breaker="b", state="open", reason="r"), "CIRCUIT_TRIPPED"),
        (BreakerMoved(at=at(0), t=0, breaker="b", state="closed", reason="r"), "CIRCUIT_RESET"),
        (marked("warning"), "COST_WARNING"),
        (marked("exceeded"), "COST_BUDGET_EXCEEDED"),
        (
            AnomalyFound(at=at(0), t=0, rule="anomaly.x", severity="low", message="m"),
            "ANOMALY_DETECTED",
        ),
        (Overdue(at=at(0), t=0, agent="a", ids=("p1", "p2")), "OUTCOME_UNKNOWN"),
        (
            Claimed(at=at(0), t=0, request_id="req_1", agent="a", id="p1", claimant="worker-1"),
            "ACTION_CLAIMED",
        ),
        (
            KeysChanged(at=at(0), t=0, added=("agent a U1",), removed=("agent b U2",), by="x"),
            "KEYS_CHANGED",
        ),
        (
            Configured(at=at(0), t=0, policy=Policy(), digest="d", version="1", why="reload"),
            "CONFIG_RELOADED",
        ),
        (
            Refused(at=at(0), t=0, agent="a", cause="rate_limit", count=3, example="x"),
            "RATE_LIMIT_BLOCK",
        ),
        (
            Refused(at=at(0), t=0, agent="a", cause="malformed", count=3, example="x"),
            "ACTION_BLOCKED",
        ),
    ],
)
def test_what_operators_and_intake_do_is_told(event, kind) -> None:
    assert [one.event_type for one in told(Engine(Policy()).handle(event))] == [kind]


def test_reporter_refuses_what_it_does_not_hear() -> None:
    event = AuditRecovered(at=at(0), t=0, file="x", torn_bytes=1, torn_sha256="")

    with pytest.raises(TypeError, match="AuditRecovered"):
        Reporter()._tell(event)


def test_a_start_is_no_news() -> None:
    start = Configured(at=at(0), t=0, policy=Policy(), digest="d", version="1", why="start")

    assert told(Engine(Policy()).handle(start)) == []


def test_a_budget_event_carries_its_numbers() -> None:
    (event,) = told(Engine(Policy()).handle(marked("warning")))

    assert event.reason == "day budget: $40.00 of $50.00 used"
    assert event.cost_snapshot == {
        "scope": "day",
        "id": "2026-03-01",
        "spent": 39.0,
        "reserved": 1.0,
        "limit": 50.0,
        "estimate": 0.5,
    }


def test_a_breaker_event_names_the_breaker() -> None:
    moved = BreakerMoved(at=at(0), t=0, breaker="api", state="open", reason="r")

    (event,) = told(Engine(Policy()).handle(moved))

    assert event.breaker_id == "api"


def test_a_breaker_that_may_be_probed_is_no_news() -> None:
    moved = BreakerMoved(at=at(0), t=0, breaker="api", state="half_open", reason="r")

    assert told(Engine(Policy()).handle(moved)) == []


def not_told(
    state: Literal["dead", "undelivered", "parked", "cancelled", "expired", "quiet"],
) -> NotTold:
    refused = "550 no such user"
    return NotTold(at=at(0), t=0, delivery="dlv_1", channel="email", state=state, error=refused)


@pytest.mark.parametrize("state", ["dead", "undelivered", "parked"])
def test_a_message_that_does_not_arrive_is_told(
    state: Literal["dead", "undelivered", "parked"],
) -> None:
    (event,) = told(Engine(Policy()).handle(not_told(state)))

    assert (event.event_type, event.reason) == ("NOTIFICATION_FAILED", "550 no such user")
    assert event.metadata == {"channel": "email", "delivery": "dlv_1", "state": state}


@pytest.mark.parametrize("state", ["cancelled", "expired", "quiet"])
def test_a_message_that_nobody_misses_is_no_news(
    state: Literal["cancelled", "expired", "quiet"],
) -> None:
    assert told(Engine(Policy()).handle(not_told(state))) == []


def test_a_channel_that_takes_nothing_is_told_with_the_reason() -> None:
    moved = ChannelMoved(at=at(0), t=0, channel="email", up=False, why="connection refused")

    (event,) = told(Engine(Policy()).handle(moved))

    assert (event.event_type, event.reason) == ("CHANNEL_DOWN", "connection refused")
    assert event.metadata == {"channel": "email"}


def test_a_channel_that_takes_messages_again_is_told() -> None:
    moved = ChannelMoved(at=at(0), t=0, channel="email", up=True)

    (event,) = told(Engine(Policy()).handle(moved))

    assert (event.event_type, event.metadata) == ("CHANNEL_UP", {"channel": "email"})


@pytest.mark.req("S1.35")
def test_a_cloud_call_in_development_is_a_mode_violation() -> None:
    engine = Engine(Policy(mode="development"))

    (event,) = told(play(engine, propose(0, type="model_call", provider="openai", model="gpt-5")))

    assert event.event_type == "MODE_VIOLATION"


@pytest.mark.req("S1.31")
def test_refusals_by_the_rate_are_events_of_their_own_with_a_count() -> None:
    agent = RateConfig().production.agent
    engine = Engine(Policy())
    play(engine, *(propose(0, id=f"p{n}") for n in range(agent.burst)))

    events = told(play(engine, *(propose(0, id=f"q{n}") for n in range(3)), tick(10)))

    limited = [event for event in events if event.event_type == "RATE_LIMIT_BLOCK"]
    assert [event.metadata["count"] for event in limited] == [1, 2]


@pytest.mark.parametrize(
    ("event", "kind", "reason"),
    [
        (
            CommitFailed(at=at(0), t=0, project="shop", error="the index is locked", agent="a"),
            "COMMIT_FAILED",
            "the index is locked",
        ),
        (
            RollbackOffered(at=at(0), t=0, project="shop", agent="a", errors=3, commit="4f2a"),
            "ROLLBACK_OFFERED",
            "3 actions in a row failed in project shop",
        ),
        (
            RolledBack(
                at=at(0),
                t=0,
                project="shop",
                kind="soft",
                commit="4f2a",
                kept="77ab",
                by="alice",
                agents=("a", "b"),
                reason="wrong way",
            ),
            "ROLLED_BACK",
            "wrong way",
        ),
        (
            RollbackFailed(at=at(0), t=0, project="shop", commit="4f2a", error="no room"),
            "ROLLBACK_FAILED",
            "no room",
        ),
        (
            ArchiveFailed(at=at(0), t=0, week="2026-W09", error="the disk is not there"),
            "ARCHIVE_FAILED",
            "2026-W09: the disk is not there",
        ),
        (
            SnapshotMissed(at=at(0), t=0, day="2026-03-01", error="the disk is full"),
            "SNAPSHOT_MISSING",
            "2026-03-01: the disk is full",
        ),
    ],
    ids=lambda said: said if isinstance(said, str) else "",
)
def test_what_happens_to_files_is_told(event: Event, kind: str, reason: str) -> None:
    (found,) = told(play(Engine(Policy()), event))

    assert (found.event_type, found.reason) == (kind, reason)
