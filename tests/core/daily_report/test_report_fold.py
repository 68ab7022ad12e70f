from datetime import UTC, date, datetime, timedelta

import pytest

from safetyd.core.daily_report.asked_people import span_of
from safetyd.core.daily_report.day_numbers import BudgetUse, DayNumbers, Rounds
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.decision_events import Asking, Overdue, Refused, Settled, Using
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import (
    BudgetRaised,
    Paused,
    PersonSeen,
    Unpaused,
)
from safetyd.core.events.history_events import CommitFailed, Committed, RolledBack
from safetyd.core.events.request_events import (
    Cancelled,
    Expired,
    Granted,
    GrantRevoked,
    Superseded,
)
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.messages.money import NANO
from safetyd.core.messages.telemetry import Commit, Heartbeat, Iteration, Outcome
from safetyd.core.messages.verdict import ASK
from safetyd.core.policy import Policy
from tests.core.approvals.queue_story import QueueStory
from tests.core.daily_report.day_events import (
    DAY,
    FIRST,
    HOUR,
    SECOND,
    anomaly,
    blocked,
    configured,
    decided,
    due,
    folded,
    happens,
    mark,
    not_told,
    numbers,
    told,
)
from tests.story import NOON, propose, report, resume, stop, tick

BERLIN = Policy(timezone="Europe/Berlin")


def played(*story: Event) -> QueueStory:
    people = QueueStory()
    people.happens(configured(0.0), *story)
    return people


@pytest.mark.parametrize(
    ("moment", "day"),
    [
        (datetime(2026, 3, 28, 22, 59, tzinfo=UTC), date(2026, 3, 28)),
        (datetime(2026, 3, 28, 23, 0, tzinfo=UTC), date(2026, 3, 29)),  # has 23 hours
        (datetime(2026, 3, 29, 21, 59, tzinfo=UTC), date(2026, 3, 29)),
        (datetime(2026, 3, 29, 22, 0, tzinfo=UTC), date(2026, 3, 30)),
        (datetime(2026, 10, 24, 22, 0, tzinfo=UTC), date(2026, 10, 25)),  # has 25 hours
        (datetime(2026, 10, 25, 22, 59, tzinfo=UTC), date(2026, 10, 25)),
        (datetime(2026, 10, 25, 23, 0, tzinfo=UTC), date(2026, 10, 26)),
    ],
)
def test_a_day_is_one_of_the_configured_zone_also_when_clocks_change(
    moment: datetime, day: date
) -> None:
    t = (moment - NOON).total_seconds()

    fold = folded(configured(0.0, BERLIN), anomaly("low", t))

    assert fold.days[day].anomalies == {"low": 1}


def test_an_hour_is_one_of_the_clock_on_the_wall() -> None:
    day = numbers(configured(0.0, BERLIN), decided(10.0))

    assert {hour: counts.allowed for hour, counts in day.hours.items()} == {13: 1}


def test_from_another_zone_on_days_are_those_of_it() -> None:
    late = 11.5 * HOUR  # half past eleven at night in UTC, and past midnight in Berlin

    fold = folded(anomaly("low", late), configured(late + 1, BERLIN), anomaly("high", late + 2))

    assert fold.days[FIRST].anomalies == {"low": 1}
    assert fold.days[SECOND].anomalies == {"high": 1}
    assert fold.policies == {FIRST: Policy(), SECOND: BERLIN}


def test_what_only_repeats_others_is_not_counted() -> None:
    repeats = happens(SafetyEvent, id="e1", timestamp=NOON, event_type="X", reason="", metadata={})

    assert numbers(anomaly("low"), repeats).events == 1


@pytest.mark.req("S2.44")
def test_decisions_of_an_engine_are_executed_escalated_or_blocked() -> None:
    people = played()
    people.proposes(propose(1, id="r1", confidence=0.9))
    people.proposes(propose(2, id="b1", type="run_shell", text="rm -rf /"))
    people.asks(3, "q1", confidence=0.8)
    again = decided(4.0, "r1", confidence=0.9, first=False)  # takes nothing

    day = numbers(*people.journal, again)

    assert (day.executed, day.escalated, day.blocked) == (1, 1, 1)
    assert (day.stated, day.stated_millionths) == (2, 1_700_000)
    assert day.held_by["gate"] == 1
    assert sum(day.restricting.values()) == 2


def test_what_was_approved_is_not_executed_on_its_own() -> None:
    people = played()
    asked = people.asks(1, "q1")
    people.answers(2, asked.request_id)
    people.asks(3, "q2")

    day = numbers(*people.journal)

    assert (day.executed, day.approved, day.yes) == (0, 1, 1)


def test_what_an_agent_waited_for_counts_as_soon_as_it_is_approved() -> None:
    people = played()
    asked = people.asks(1, "q1", wait=True, cost_usd=2.0, confidence=0.75)
    people.answers(61, asked.request_id, waits=True)
    people.happens(report(70, Outcome(id="q1", ok=True)))

    day = numbers(*people.journal)

    assert (day.approved, day.succeeded, day.cost_nano) == (1, 1, 2_000_000_000)
    assert (day.timed, day.took_ms, day.within) == (1, 60_000, {1: 1})
    stated = day.calibration["code"][7]
    assert (stated.approved, stated.succeeded, stated.sum_millionths) == (1, 1, 1_500_000)


def test_a_grant_counts_apart() -> None:
    day = numbers(decided(grants=("g1",)), decided(1.0, "p2"))

    assert (day.executed, day.by_grant) == (2, 1)


def test_an_approval_that_is_used_counts_apart() -> None:
    using = Using(request_id="r1", by="alice", until=NOON)

    assert numbers(decided(uses=using)).approved == 1


def test_answers_are_timed_from_the_day_before() -> None:
    people = played()
    asked = people.asks(1, "q1")
    people.answers(DAY + 1, asked.request_id, "denied")

    days = folded(*people.journal).days

    assert (days[FIRST].opened, days[FIRST].waiting.value, days[FIRST].timed) == (1, 1, 0)
    second = days[SECOND]
    assert (second.no, second.timed, second.took_ms, second.waiting.value) == (1, 1, 86_400_000, 0)
    assert second.longest_ms.value == 86_400_000


def test_an_answer_to_what_was_asked_longer_than_a_week_ago_is_counted_and_not_timed() -> None:
    people = played()
    asked = people.asks(1, "q1")
    people.answers(8 * DAY, asked.request_id)

    day = folded(*people.journal).days[FIRST + timedelta(days=8)]

    assert (day.yes, day.timed, day.waiting.value) == (1, 0, 0)


def test_requests_end_in_other_ways_too() -> None:
    people = played()
    ids = [people.asks(n, f"q{n}", text=f"git push origin b{n}").request_id for n in range(3)]
    assert len(set(ids)) == 3
    people.happens(happens(Cancelled, 5.0, request_id=ids[0], by="alice", via="cli"))
    people.happens(happens(Superseded, 6.0, request_id=ids[1], agent="code", by_id="q9"))
    people.happens(happens(Expired, 7.0, request_ids=(ids[2], "req_unknown")))

    day = numbers(*people.journal)

    assert (day.withdrawn, day.expired, day.waiting.value) == (2, 2, 0)
    assert [question.unanswered for question in day.questions.values()].count(1) == 1
    assert day.interventions == {"cancelled": 1}


def test_an_approved_request_to_end_a_pause_is_an_answer_and_no_other_intervention() -> None:
    people = played()
    people.happens(happens(Paused, 1.0, agent="code", source="anomaly", by="safetyd"))
    (request,) = people.engine.approvals.pending()
    people.person_answers(2.0, request)

    day = numbers(*people.journal)

    assert [event.by for event in people.journal if isinstance(event, Unpaused)] == ["alice"]
    assert day.interventions == {}


def test_what_is_asked_again_joins() -> None:
    people = played()
    people.asks(1, "q1")
    people.asks(2, "q2")

    day = numbers(*people.journal)

    assert (day.escalated, day.opened, day.joined) == (2, 1, 1)
    assert [question.asked for question in day.questions.values()] == [1]


def test_a_pause_by_an_anomaly_asks_people() -> None:
    people = played()
    people.happens(
        happens(Paused, 1.0, agent="code", source="anomaly", by="safetyd"),
        happens(Paused, 2.0, agent="ops", source="operator", by="alice"),
        happens(Unpaused, 3.0, agent="code", sources=("anomaly",), by="alice"),
    )

    day = numbers(*people.journal)

    assert (day.opened, day.withdrawn, day.waiting.value) == (1, 1, 0)
    assert day.interventions == {"paused": 1, "unpaused": 1}


def test_commands_of_one_shape_are_one_question() -> None:
    people = played()
    for number in range(3):
        text = f"git push origin main --push-option {number}"
        asked = people.asks(number, f"q{number}", text=text if number else "x" * 300)
        people.answers(number + 0.5, asked.request_id)

    asked_texts = {each.text for each in numbers(*people.journal).questions.values()}

    assert None in asked_texts  # too long to be shown
    assert len(asked_texts) in {2, 3}


def test_rounds_count_once_though_an_agent_says_both() -> None:
    dispatched = decided(type="dispatch")
    said = [report(n, Iteration()) for n in (1, 2)]

    day = numbers(dispatched, *said, report(3, Iteration(), "ops"), report(4, Heartbeat()))

    assert day.rounds == {
        "code": Rounds(dispatched=1, reported=2),
        "ops": Rounds(reported=1),
    }
    assert day.iterations == 3


def test_an_outcome_costs_what_it_says_else_what_was_expected() -> None:
    priced = happens(Settled, 3.0, agent="code", id="p2", ok=True, priced_nano=7)
    day = numbers(
        decided(0.0, "p1", cost_usd=1.5),
        decided(1.0, "p2", cost_usd=9.0),
        happens(Settled, 2.0, agent="code", id="p1", ok=True),
        priced,
        happens(Settled, 4.0, agent="code", ok=False, cost_usd=0.5),
        happens(Settled, 5.0, agent="code", id="unknown", ok=False),
    )

    assert day.cost_nano == 2_000_000_007
    assert (day.succeeded, day.failed) == (2, 2)
    assert day.hours[12].cost_nano == 2_000_000_007


def test_an_outcome_more_than_a_day_later_is_one_of_an_unknown_action() -> None:
    def day_of(t: float) -> DayNumbers:
        action = decided(0.0, "p1", cost_usd=2.0, confidence=0.9)
        settled = happens(Settled, t, agent="code", id="p1", ok=True)
        return folded(action, settled).days[SECOND]

    in_time, late = day_of(DAY), day_of(DAY + 1)

    assert (in_time.cost_nano, list(in_time.calibration)) == (2_000_000_000, ["code"])
    assert (late.cost_nano, late.calibration) == (0, {})


def test_what_nobody_reports_costs_what_was_expected() -> None:
    policy = Policy(budget=BudgetConfig(default_cost_usd=0.25))
    day = numbers(
        configured(0.0, policy),
        decided(1.0, "p1"),
        happens(Overdue, 2.0, agent="code", ids=("p1", "unknown")),
    )

    assert (day.overdue, day.cost_nano) == (2, 250_000_000)


def test_the_budget_is_that_of_the_day_in_utc_and_can_be_raised() -> None:
    policy = Policy(budget=BudgetConfig(day_usd=10.0))
    raised = happens(BudgetRaised, 3.0, scope="day", usd=10.0, by="alice", reason="more")
    of_model = happens(BudgetRaised, 4.0, scope="model", id="m", usd=99.0, by="alice", reason="x")
    days = folded(
        configured(0.0, policy),
        happens(Settled, 1.0, agent="code", ok=True, cost_usd=4.0, priced_nano=NANO),
        raised,
        of_model,
        happens(Settled, 5.0, agent="code", ok=True, cost_usd=4.5, priced_nano=NANO),
        happens(Settled, DAY, agent="code", ok=True, cost_usd=1.0),
    ).days

    assert days[FIRST].budget == BudgetUse(8_500_000_000, 20_000_000_000)
    assert days[SECOND].budget == BudgetUse(1_000_000_000, 10_000_000_000)


def test_money_that_was_set_aside_yesterday_is_not_of_the_budget_of_today() -> None:
    day = folded(
        configured(11 * HOUR),
        decided(11.9 * HOUR, "p1", cost_usd=3.0),
        happens(Settled, 12.1 * HOUR, agent="code", id="p1", ok=True),
    ).days[SECOND]

    assert (day.cost_nano, day.budget.spent) == (3_000_000_000, 0)


def test_without_a_limit_there_is_no_use_of_a_budget() -> None:
    policy = Policy(budget=BudgetConfig(day_usd=0.0))
    settled = happens(Settled, 1.0, agent="code", ok=True, cost_usd=4.0)

    assert numbers(configured(0.0, policy), settled).budget == BudgetUse()


def test_marks_of_budgets_are_counted_by_their_scope() -> None:
    day = numbers(mark("warning"), mark("exceeded", "session"), mark("exceeded", "session"))

    assert (day.budgets_near, day.budgets_gone) == ({"day": 1}, {"session": 2})


def test_a_stop_by_a_command_and_its_file_is_one() -> None:
    by_file = stop(1, "file:/data/STOP")

    assert numbers(stop(0), by_file).stops == 1
    assert numbers(stop(0), resume(1), stop(2)).stops == 2
    assert numbers(stop(0), stop(1, agent="code")).stops == 2
    assert numbers(stop(0), stop(120)).stops == 2


def test_what_people_do_is_counted_by_kind() -> None:
    grant = {"agent": "code", "via": "cli", "reason": "r", "uses": 1, "until": NOON}
    day = numbers(
        stop(0),
        resume(1),
        happens(Granted, 2.0, id="g1", by="alice", **grant),
        happens(GrantRevoked, 3.0, grant="g1", agent="code", by="alice"),
        happens(PersonSeen, 4.0, by="alice", how="ack"),
        happens(RolledBack, 5.0, project="w", kind="soft", commit="a", kept="b", by="alice"),
        happens(RolledBack, 6.0, project="w", kind="soft", commit="a", kept="b", by="safetyd"),
    )

    assert day.interventions == {
        "stopped": 1,
        "resumed": 1,
        "granted": 1,
        "grant_revoked": 1,
        "rolled_back": 1,
    }
    assert day.rollbacks == 2


def test_time_without_a_person_goes_on_over_midnight() -> None:
    seen = happens(PersonSeen, 0.0, by="alice", how="ack")

    days = folded(seen, anomaly("low", 6 * HOUR), anomaly("low", 30 * HOUR)).days

    assert days[FIRST].without_person.value == 6 * HOUR
    assert days[SECOND].without_person.value == 30 * HOUR


def test_commits_of_the_history_and_of_agents_are_counted() -> None:
    day = numbers(
        happens(Committed, project="w", commit="a", why="after"),
        happens(Committed, project="w", commit="", why="after"),
        happens(CommitFailed, project="w", error="locked"),
        report(1, Commit(ref="b")),
    )

    assert (day.commits, day.commits_failed, day.commits_reported) == (1, 1, 1)


def test_patterns_say_in_whose_doing_they_were_found() -> None:
    day = numbers(
        anomaly("low", agent="code"),
        anomaly("low", agent="code"),
        anomaly("low", breaker="db"),
        anomaly("low"),
    )

    assert day.patterns["anomaly.x"].count == 4
    assert day.patterns["anomaly.x"].agents == {"code": 2, "db": 1}


def test_what_is_refused_before_a_decision_is_counted() -> None:
    refused = happens(Refused, agent="code", cause="rate_limit", count=17, example="p1")

    assert numbers(refused).refused == 17


@pytest.mark.parametrize("state", ["dead", "undelivered", "parked", "expired"])
def test_what_no_message_told_was_told_to_nobody(state: str) -> None:
    assert numbers(due("d1", "n1", "n2"), not_told("d1", state)).untold == ("n1", "n2")


@pytest.mark.parametrize(
    "story",
    [
        (not_told("d1", "cancelled"),),
        (not_told("d1", "quiet"),),
        (not_told("d1", by="alice"),),
        (not_told("unknown"), told("unknown")),
        (told("d1"), due("d2", "n1"), not_told("d2")),
        (not_told("d1"), due("d2", "n1"), told("d2")),
    ],
)
def test_what_was_told_otherwise_or_not_wanted_is_not_missing(story: tuple[Event, ...]) -> None:
    assert numbers(due("d1", "n1"), *story).untold == ()


def test_a_block_says_which_guard_held_it() -> None:
    assert numbers(blocked(guard="stop")).held_by == {"stop": 1}


@pytest.mark.parametrize(
    ("seconds", "span"), [(0, 0), (59.9, 0), (60, 1), (899, 2), (3600, 4), (86_400, 6), (1e6, 6)]
)
def test_answers_are_counted_by_how_long_they_took(seconds: float, span: int) -> None:
    assert span_of(seconds) == span


def test_a_request_that_waits_too_long_is_forgotten_though_nothing_else_is_asked() -> None:
    people = played()
    people.asks(1, "q1")

    day = folded(*people.journal, anomaly("low", 9 * DAY)).days[FIRST + timedelta(days=9)]

    assert day.waiting.value == 0


def test_a_tick_changes_nothing() -> None:
    assert numbers(anomaly("low"), tick(1)).events == 2


def test_a_decision_that_asks_nobody_opens_no_request() -> None:
    day = numbers(blocked(severity=ASK))

    assert (day.escalated, day.opened) == (1, 0)


def test_a_permission_that_is_released_is_not_used_yet() -> None:
    people = played()
    asked = people.proposes(propose(1, id="q1", type="push", text="x"), permission=True)
    people.answers(2, asked.request_id, waits=True)

    assert numbers(*people.journal).approved == 0


def test_a_request_that_another_proposal_takes_over_is_that_of_it() -> None:
    takes = Asking(request_id="r1", action=b"k", joins=True, takes_over=True)
    day = numbers(decided(decision=ASK, asks=takes))

    assert (day.joined, day.opened) == (1, 0)
