from datetime import timedelta

import msgspec
import pytest

from safetyd.core.daily_report.colour_rules import RULES, DayFacts, colour_of, judge
from safetyd.core.daily_report.day_numbers import DayNumbers
from safetyd.core.daily_report.report_fold import REASON_CHARS
from safetyd.core.events.decision_events import Reported, Settled
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import PersonSeen, SafeModeEntered
from safetyd.core.events.history_events import (
    RollbackFailed,
    RolledBack,
    SnapshotMissed,
    SnapshotTaken,
)
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.messages.telemetry import Rollback
from safetyd.core.policy import Policy
from tests.core.approvals.queue_story import QueueStory
from tests.core.daily_report.day_events import (
    DAY,
    FIRST,
    HOUR,
    anomaly,
    blocked,
    configured,
    due,
    folded,
    happens,
    mark,
    not_told,
    numbers,
    rules,
    told,
)
from tests.story import resume, stop

SEVENTH = FIRST + timedelta(days=6)
TEN_DOLLARS = configured(0.0, Policy(budget=BudgetConfig(day_usd=10.0)))


def spent(usd: float) -> Settled:
    return happens(Settled, 1.0, agent="code", ok=True, cost_usd=usd, priced_nano=round(usd * 1e9))


def outcomes(good: int, bad: int) -> list[Event]:
    return [happens(Settled, agent="code", ok=n < good) for n in range(good + bad)]


ROLLED_BACK = happens(RolledBack, project="web", kind="soft", commit="c1", kept="c2", by="safetyd")
MISSED = happens(SnapshotMissed, day="2026-03-01", error="disk full")

# One story for each way in which a rule comes to hold: it holds, and no other.
STORIES: dict[str, tuple[str, list[Event]]] = {
    "a stop": ("emergency_stop", [stop(0)]),
    "a stop of yesterday": ("emergency_stop", [blocked(guard="stop")]),
    "a critical anomaly": ("critical_anomaly", [anomaly("critical")]),
    "a rollback": ("rollback", [ROLLED_BACK]),
    "a rollback that failed": (
        "rollback",
        [happens(RollbackFailed, project="web", commit="c1", error="no room")],
    ),
    "a rollback by an agent": (
        "rollback",
        [happens(Reported, agent="code", telemetry=Rollback(ref="HEAD~1"))],
    ),
    "a budget that is spent": ("budget_gone", [TEN_DOLLARS, spent(5.0), spent(5.0)]),
    "a budget that refused": ("budget_gone", [mark("exceeded")]),
    "a lost message": ("nobody_told", [due("d1", "n1"), not_told("d1")]),
    "a high anomaly": ("high_anomaly", [anomaly("high")]),
    "safe mode": ("safe_mode", [happens(SafeModeEntered, by="safetyd")]),
    "safe mode of yesterday": ("safe_mode", [blocked(guard="safe_mode")]),
    "errors": ("error_rate", outcomes(18, 2)),
    "a budget that is nearly spent": ("budget_near", [TEN_DOLLARS, spent(4.0), spent(4.01)]),
    "a budget that warned": ("budget_near", [mark("warning")]),
    "nobody for a day": (
        "no_person",
        [happens(PersonSeen, -25 * HOUR, by="alice", how="ack"), anomaly("low", 1.0)],
    ),
    "no snapshot": ("snapshot_missing", [MISSED]),
}


@pytest.mark.req("S2.45")
@pytest.mark.parametrize("story", STORIES)
def test_a_rule_holds_alone_and_gives_the_day_its_colour(story: str) -> None:
    name, events = STORIES[story]

    found = judge(DayFacts(numbers(*events)))

    assert [each.rule for each in found] == [name]
    assert colour_of(found) == next(rule.colour for rule in RULES if rule.name == name)


def test_a_broken_audit_chain_alone_makes_a_day_red() -> None:
    found = judge(DayFacts(DayNumbers(events=1), "audit-00000001.jsonl:3: its hash does not fit"))

    assert [(each.rule, each.colour) for each in found] == [("audit_broken", "RED")]
    assert "audit-00000001.jsonl:3" in found[0].says


def test_every_rule_has_a_story_in_which_it_holds_alone() -> None:
    assert {rule.name for rule in RULES} == {name for name, _ in STORIES.values()} | {
        "audit_broken",
        "no_record",
        "old_requests",
    }


def test_a_day_without_any_record_is_unknown_and_not_green() -> None:
    found = judge(DayFacts(DayNumbers()))

    assert [each.says for each in found] == ["nothing was recorded"]
    assert colour_of(found) == "UNKNOWN"


@pytest.mark.parametrize(
    "events",
    [
        [anomaly("medium"), anomaly("low")],
        [mark("exceeded", scope="session"), mark("warning", scope="chain")],
        [TEN_DOLLARS, spent(4.0), spent(4.0)],
        outcomes(19, 1),
        outcomes(0, 19),
        [due("d1", "n1"), due("d2", "n1"), not_told("d1"), told("d2")],
        [MISSED, happens(SnapshotTaken, day="2026-03-01", files=1, size=1, late=True)],
        [happens(PersonSeen, -12 * HOUR, by="alice", how="ack"), anomaly("low", 11 * HOUR)],
        [],
    ],
)
def test_a_day_on_which_no_rule_holds_is_green(events: list[Event]) -> None:
    found = judge(DayFacts(numbers(anomaly("low"), *events)))

    assert found == ()
    assert colour_of(found) == "GREEN"


def test_red_comes_before_yellow_and_both_are_told() -> None:
    found = judge(DayFacts(numbers(anomaly("high"), stop(1))))

    assert [each.colour for each in found] == ["RED", "YELLOW"]
    assert colour_of(found) == "RED"
    assert all(each.todo for each in found)


def test_a_budget_that_is_gone_is_not_also_nearly_gone() -> None:
    assert rules(mark("warning"), mark("exceeded")) == ["budget_gone"]


def test_numbers_are_said_in_words() -> None:
    several = [anomaly("critical"), anomaly("critical"), happens(SafeModeEntered, by="alice")]
    by_agent = happens(Reported, agent="code", telemetry=Rollback(ref="HEAD"))

    found = {each.rule: each.says for each in judge(DayFacts(numbers(*several, by_agent)))}

    odd = "12:00 by anomaly.x: odd"
    assert found["critical_anomaly"] == f"2 CRITICAL anomalies: {odd}; {odd}"
    assert found["rollback"] == "1 rollback, 1 of them by agents: 12:00 by code: to HEAD"
    assert found["safe_mode"] == "safe mode was entered once: 12:00 by alice"


def test_rollbacks_are_told_with_their_project_by_whom_and_why() -> None:
    back = msgspec.structs.replace(ROLLED_BACK, by="alice", reason="the tests fail")
    failed = happens(RollbackFailed, HOUR, project="shop", commit="c1", error="no room")

    found = judge(DayFacts(numbers(back, failed)))

    said = "12:00 web by alice: the tests fail; 13:00 shop by safetyd: failed: no room"
    assert found[0].says == f"2 rollbacks, 1 of them failed: {said}"


def test_requests_that_are_pending_for_longer_than_a_day_make_it_yellow() -> None:
    people = QueueStory()
    people.asks(1, "q1")
    people.happens(happens(PersonSeen, 5.2 * DAY, by="alice", how="ack"))
    people.asks(6 * DAY, "q2", text="git push origin other")

    found = judge(DayFacts(folded(*people.journal, anomaly("low", 6 * DAY + 1)).days[SEVENTH]))
    first = judge(DayFacts(folded(*people.journal).days[FIRST]))

    assert [(each.rule, each.colour) for each in found] == [("old_requests", "YELLOW")]
    assert found[0].says == "2 pending requests, the oldest for 6 d"
    assert first == ()


def test_stops_are_told_with_when_by_whom_and_why() -> None:
    found = judge(DayFacts(numbers(stop(0), stop(HOUR, agent="code"))))

    said = "12:00 by alice: drill; 13:00 code by alice: drill"
    assert found[0].says == f"2 emergency stops: {said}"


def test_of_many_stops_the_last_are_told_by_the_clock_of_the_zone() -> None:
    berlin = configured(0.0, Policy(timezone="Europe/Berlin"))
    long = msgspec.structs.replace(stop(4 * HOUR), reason="x\n" * REASON_CHARS)

    found = judge(DayFacts(numbers(berlin, *(stop(n * HOUR) for n in range(4)), long)))

    early = "15:00 by alice: drill; 16:00 by alice: drill"
    assert found[0].says.startswith(f"5 emergency stops, the last: {early}; 17:00 by alice: x x")
    assert len(found[0].says) < len(early) + REASON_CHARS + 60


@pytest.mark.parametrize(
    ("events", "advised"),
    [
        ([stop(0)], True),
        ([stop(0), resume(1)], False),
        ([stop(0), stop(1, "file:/data/STOP"), resume(2)], True),
        ([stop(0), stop(1, "file:/data/STOP"), resume(2, "operator", "file:/data/STOP")], False),
        ([stop(0), stop(1, agent="code"), resume(2)], True),
        ([blocked(guard="stop")], True),
        ([stop(-13 * HOUR), blocked(guard="stop"), resume(1)], False),
    ],
)
def test_to_resume_is_advised_only_while_something_is_stopped(
    events: list[Event], *, advised: bool
) -> None:
    (found,) = judge(DayFacts(numbers(*events)))

    assert ("`safetyd resume`" in found.todo) == advised


def test_nobody_for_longer_than_a_week_is_said_to_be_a_week() -> None:
    seen = happens(PersonSeen, -20 * DAY, by="alice", how="ack")

    found = judge(DayFacts(numbers(seen, anomaly("low", 1.0))))

    assert found[0].says == "no operator was active for 168 h"
