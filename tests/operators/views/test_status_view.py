from typing import Any, Literal

import msgspec

from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.guard_events import AnomalyFound, BreakerMoved, Paused, PersonSeen
from safetyd.core.messages.telemetry import Heartbeat
from safetyd.core.policy import Policy
from safetyd.operators.views.agent_view import RECENT_S, SHOWN
from safetyd.operators.views.status_view import (
    FINDINGS_BYTES,
    HEARD_S,
    MAX_SHOWN,
    safe_mode,
)
from tests.operators.views.view_reader import encoded, entered, plain, played, status_of
from tests.story import at, play, propose, report, resume, stop


def told(*story: Event, t: float = 10.0) -> dict[str, Any]:
    engine = Engine(Policy())
    play(engine, *story)
    return plain(status_of(engine, t))


def test_status_of_a_fresh_engine() -> None:
    view = told()

    assert view["mode"] == "production"
    assert view["profile"] == "strict"
    assert view["policy"] == Policy().digest()
    assert (view["seq"], view["agents"]) == (0, 0)
    assert view["stop"] == {
        "active": False,
        "epoch": 0,
        "stops": [],
        "acknowledged": [],
        "silent": [],
        "open_actions": 0,
    }


def halted(*story: Event, t: float = 10.0) -> dict[str, Any]:
    view: dict[str, Any] = told(*story, t=t)["stop"]
    return view


def test_stop_shows_who_has_acknowledged_it_and_who_has_not() -> None:
    view = halted(
        propose(0, "code"),
        propose(0, "ops"),
        stop(1, epoch=3),
        report(2, Heartbeat(stop_epoch=3), "code"),
    )

    assert (view["active"], view["epoch"]) == (True, 3)
    assert (view["acknowledged"], view["silent"]) == (["code"], ["ops"])
    assert view["open_actions"] == 2


def test_acknowledging_an_older_stop_is_silence() -> None:
    view = halted(
        propose(0, "code"),
        report(1, Heartbeat(stop_epoch=1), "code"),
        stop(2, epoch=2),
    )

    assert (view["acknowledged"], view["silent"]) == ([], ["code"])


def test_stop_of_one_agent_asks_nothing_of_the_others() -> None:
    view = halted(propose(0, "code"), propose(0, "ops"), stop(1, agent="ops"))

    assert (view["acknowledged"], view["silent"]) == ([], ["ops"])


def test_after_a_resume_nobody_is_silent() -> None:
    view = halted(propose(0, "code"), stop(1), resume(2))

    assert (view["active"], view["silent"], view["acknowledged"]) == (False, [], [])


def test_agent_that_was_not_heard_for_long_is_not_expected_to_answer() -> None:
    view = halted(propose(0, "code"), stop(1), t=HEARD_S + 1)

    assert (view["silent"], view["open_actions"]) == ([], 1)


def test_actions_that_are_only_counted_are_open_too() -> None:
    proposals = [propose(n, id=f"p{n}") for n in range(SHOWN + 3)]
    engine = Engine(Policy())
    play(engine, *proposals)

    view = plain(status_of(engine, 90.0))

    assert view["stop"]["open_actions"] == SHOWN + 3


def test_status_shows_who_is_paused_and_in_safe_mode() -> None:
    view = told(Paused(at=at(1), t=1.0, agent="ops", source="budget", by="safetyd"), entered(2))

    assert view["paused"] == ["ops"]
    assert (view["safe_mode"]["active"], view["safe_mode"]["agents"]) == (True, ["*"])


def test_safe_mode_of_one_agent_is_not_anothers() -> None:
    engine = played(entered(2, "code"))

    code = plain(safe_mode(engine, Moment(at(3), 3.0), "code"))
    ops = plain(safe_mode(engine, Moment(at(3), 3.0), "ops"))

    assert code == {
        "ok": True,
        "active": True,
        "state": "safe_mode",
        "consecutive_errors": 0,
        "threshold": 3,
        "since": "2026-03-01T12:00:02Z",
        "cooldown_remaining_ms": 59000,
        "agent": "code",
        "agents": ["code"],
        "holds": [
            {
                "agent": "code",
                "since": "2026-03-01T12:00:02Z",
                "by": "alice",
                "reason": "drill",
                "cooldown_remaining_ms": 59000,
            }
        ],
    }
    assert (ops["active"], ops["agents"]) == (False, [])


def test_status_shows_what_the_fleet_spent_today_and_who_matters_most() -> None:
    view = told(propose(0, "ops", cost_usd=0.5), propose(1, "code"))

    assert view["today"] == {
        "scope": "day",
        "id": "2026-03-01",
        "agent": None,
        "spent": 0.0,
        "reserved": 0.5,
        "limit": 50.0,
        "raised": 0.0,
        "pending": 0.0,
    }
    assert view["warn_ratio"] == 0.8
    assert [row["agent"] for row in view["foremost"]] == ["code", "ops"]


def test_status_says_by_whom_and_why_those_paused_longest_are() -> None:
    pauses = [
        Paused(at=at(n), t=float(n), agent=f"a{n}", source="operator", by="alice", reason="lunch")
        for n in range(MAX_SHOWN + 1)
    ]

    view = told(*pauses)

    assert view["pauses"][0] == {
        "agent": "a0",
        "source": "operator",
        "by": "alice",
        "reason": "lunch",
        "since": "2026-03-01T12:00:00Z",
        "request": None,
    }
    assert (len(view["pauses"]), len(view["paused"])) == (MAX_SHOWN, MAX_SHOWN + 1)


def test_status_shows_breakers_that_are_not_closed_and_counts_the_rest() -> None:
    moves = [
        BreakerMoved(at=at(n), t=float(n), breaker=f"api{n}", state="open", reason="down")
        for n in range(MAX_SHOWN + 2)
    ]

    view = told(propose(0, dependency="db"), *moves, t=10.0)

    assert [row["breaker"] for row in view["breakers"]] == [f"api{n}" for n in range(MAX_SHOWN)]
    assert (view["breakers"][0]["open_s"], view["tripped"]) == (10.0, MAX_SHOWN + 2)


def test_of_many_in_safe_mode_the_first_few_are_shown_everybodys_before_the_others() -> None:
    view = told(*(entered(n, f"a{n}") for n in range(MAX_SHOWN)), entered(9))["safe_mode"]

    assert [hold["agent"] for hold in view["holds"]] == ["*", *(f"a{n}" for n in range(4))]
    assert len(view["agents"]) == MAX_SHOWN + 1


def found(t: float, severity: Literal["low", "high"]) -> AnomalyFound:
    rule = f"anomaly.{severity}{t:g}"
    return AnomalyFound(at=at(t), t=t, rule=rule, severity=severity, message="odd", agent="code")


def test_status_shows_the_anomalies_of_the_last_hour_worst_first() -> None:
    old, story = found(0, "high"), [found(1, "high"), found(2, "high"), found(3, "low")]

    view = told(old, *story, t=RECENT_S)

    rules = [row["rule"] for row in view["findings"]]
    assert rules == ["anomaly.high2", "anomaly.high1", "anomaly.low3"]
    assert view["found"] == 3


def test_status_has_every_anomaly_of_the_last_hour() -> None:
    view = told(*(found(n, "high") for n in range(40)), t=50)

    assert len(view["findings"]) == view["found"] == 40


def test_very_long_findings_do_not_burst_the_answer() -> None:
    long = [msgspec.structs.replace(found(n, "high"), message="x" * 10_000) for n in range(40)]

    view = told(*long, t=50)

    assert len(encoded(view["findings"])) <= FINDINGS_BYTES
    assert view["found"] == 40


def test_a_finding_is_seen_once_an_operator_acknowledged_after_it() -> None:
    ack, other = (PersonSeen(at=at(2), t=2.0, by="alice", how=how) for how in ("ack", "cli"))

    acknowledged = told(found(1, "high"), ack, found(3, "high"))
    only_active = told(found(1, "high"), other)

    assert [row["seen"] for row in acknowledged["findings"]] == [False, True]
    assert [row["seen"] for row in only_active["findings"]] == [False]
