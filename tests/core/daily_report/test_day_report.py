from datetime import timedelta

import msgspec
import pytest

from safetyd.core.daily_report.day_numbers import DayNumbers, Question, Stated, bin_of
from safetyd.core.daily_report.day_report import (
    ALL,
    OTHERS,
    SHOWN_AGENTS,
    DailyReport,
    ReportScope,
    report_of_numbers,
)
from safetyd.core.events.decision_events import Settled
from safetyd.core.events.event import Event
from safetyd.core.events.history_events import SnapshotMissed, SnapshotTaken
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.policy import Policy
from tests.core.daily_report.day_events import (
    DAY,
    FIRST,
    SECOND,
    anomaly,
    configured,
    decided,
    folded,
    happens,
    mark,
)
from tests.story import resume, stop


def report(*events: Event, days: int = 1, **known: object) -> DailyReport:
    fold = folded(*events)
    last = FIRST + timedelta(days=days - 1)
    scope = {"policy": fold.policies.get(FIRST, Policy()), **known}
    return report_of_numbers(fold.days, ReportScope(FIRST, last, **scope))  # type: ignore[arg-type]


def test_a_day_without_events_is_unknown() -> None:
    made = report()

    assert (made.colour, made.events, made.calibration) == ("UNKNOWN", 0, ())
    assert made.scores.confidence_percent is None
    assert made.people.average_s is None


def test_the_budget_that_is_left_is_told_in_dollars_and_percent() -> None:
    policy = Policy(budget=BudgetConfig(day_usd=10.0))
    spent = happens(Settled, 1.0, agent="code", ok=True, cost_usd=2.5)

    some = report(configured(0.0, policy), spent).limits
    none = report(configured(0.0, policy)).limits
    endless = report(configured(0.0, Policy(budget=BudgetConfig(day_usd=0.0))), spent).limits

    assert (some.budget_left_usd, some.budget_left_percent) == (7.5, 75.0)
    assert (none.budget_left_usd, none.budget_left_percent) == (10.0, 100.0)
    assert (endless.budget_left_usd, endless.budget_left_percent) == (None, None)


@pytest.mark.parametrize(
    ("taken", "missed", "state"),
    [((), (), "none"), (("1",), (), "OK"), (("1",), ("1",), "OK"), (("1",), ("2",), "MISSING")],
)
def test_snapshots_are_ok_or_missing(
    taken: tuple[str, ...], missed: tuple[str, ...], state: str
) -> None:
    events: list[Event] = [happens(SnapshotTaken, day=day, files=1, size=1) for day in taken]
    events += [happens(SnapshotMissed, day=day, error="full") for day in missed]

    assert report(anomaly("low"), *events).versions.snapshots == state


def test_days_that_were_missed_while_nothing_ran_stay_missing_but_for_the_last() -> None:
    missed = happens(SnapshotMissed, since="2026-03-01", day="2026-03-03", error="off")
    taken = happens(SnapshotTaken, day="2026-03-03", files=1, size=1, late=True)

    before, after = report(missed), report(missed, taken)

    assert before.versions.snapshots_missing == ("2026-03-01", "2026-03-02", "2026-03-03")
    assert after.versions.snapshots_missing == ("2026-03-01", "2026-03-02")


def test_of_many_missing_days_a_few_are_named() -> None:
    missed = happens(SnapshotMissed, since="2026-03-01", day="2026-03-08", error="off")

    (found,) = report(missed).found

    assert found.says.startswith("no snapshot for 2026-03-01, 2026-03-02, ")
    assert found.says.endswith(" and 3 more")


@pytest.mark.req("S4.28")
def test_confidence_is_compared_with_what_came_true_in_ten_bins() -> None:
    events: list[Event] = []
    for n in range(10):
        events.append(decided(n, f"p{n}", confidence=0.95))
        events.append(happens(Settled, n + 0.5, agent="code", id=f"p{n}", ok=n < 6))

    together, code = report(*events).calibration

    assert (together.agent, code.agent, code.count) == (ALL, "code", 10)
    assert (code.stated_percent, code.good_percent, code.gap_percent) == (95.0, 60.0, 35.0)
    assert len(code.bins) == 10
    last = code.bins[9]
    assert (last.from_percent, last.succeeded, last.failed) == (90, 6, 4)
    assert (last.stated_percent, last.good_percent) == (95.0, 60.0)
    assert code.bins[0].good_percent is None


@pytest.mark.parametrize(
    ("confidence", "number"), [(0.0, 0), (0.099, 0), (0.1, 1), (0.95, 9), (1.0, 9)]
)
def test_a_confidence_lies_in_a_tenth(confidence: float, number: int) -> None:
    assert bin_of(confidence) == number


def test_of_many_agents_those_with_most_are_shown_and_the_rest_as_one() -> None:
    counted = {
        f"a{n:02}": {9: Stated(succeeded=n + 1, sum_millionths=(n + 1) * 900_000)}
        for n in range(SHOWN_AGENTS + 3)
    }
    numbers = DayNumbers(events=1, calibration=counted)

    made = report_of_numbers({FIRST: numbers}, ReportScope(FIRST, FIRST, Policy()))

    names = [each.agent for each in made.calibration]
    assert names == [ALL, *(f"a{n:02}" for n in range(SHOWN_AGENTS + 2, 2, -1)), OTHERS]
    assert made.calibration[-1].count == 1 + 2 + 3
    assert made.calibration[0].count == sum(range(1, SHOWN_AGENTS + 4))


def test_several_days_have_a_row_each_and_the_colour_of_the_worst() -> None:
    made = report(anomaly("high"), stop(DAY), anomaly("low", 2 * DAY), days=3)

    assert [row.colour for row in made.days] == ["YELLOW", "RED", "GREEN"]
    assert made.colour == "RED"
    assert [(found.rule, found.says) for found in made.found] == [
        (
            "emergency_stop",
            f"emergency stop on {SECOND}: 1 emergency stop: 12:00 by alice: drill",
        ),
        ("high_anomaly", f"high anomaly on {FIRST}: 1 HIGH anomaly: 12:00 by anomaly.x: odd"),
    ]
    assert made.anomalies.total == 2


def test_of_several_days_the_last_state_says_whether_to_resume() -> None:
    still = report(stop(0), stop(DAY), days=2).found[0].todo
    ended = report(stop(0), resume(DAY), days=2).found[0].todo

    assert ("`safetyd resume`" in still, "`safetyd resume`" in ended) == (True, False)


def test_of_many_days_the_first_are_named() -> None:
    made = report(*(stop(n * DAY) for n in range(8)), days=8)

    assert " and 3 more: 8 emergency stops, the last: " in made.found[0].says


def test_a_broken_chain_is_told_once_for_several_days() -> None:
    made = report(anomaly("low"), anomaly("low", DAY), days=2, broken="a:1: changed")

    assert [found.rule for found in made.found] == ["audit_broken"]


def test_rules_and_patterns_stand_with_the_most_frequent_first() -> None:
    made = report(anomaly("low", agent="b"), anomaly("low", agent="a"), anomaly("low", agent="b"))

    assert made.anomalies.patterns[0].agents == ("b", "a")
    assert (made.anomalies.low, made.anomalies.total) == (3, 3)


def test_a_report_is_the_same_after_it_was_sent() -> None:
    made = report(anomaly("high"), mark("exceeded"), decided(confidence=0.5))

    assert msgspec.json.decode(msgspec.json.encode(made), type=DailyReport) == made
    assert made.hours[12].allowed == 1


def test_a_question_of_two_days_is_one_that_repeated() -> None:
    first = Question(agent="code", type="push", asked=1, approved=1)
    second = Question(agent="code", type="push", asked=2, denied=1, unanswered=1)
    days = {FIRST: DayNumbers(questions={"k": first}), SECOND: DayNumbers(questions={"k": second})}

    (found,) = report_of_numbers(days, ReportScope(FIRST, SECOND, Policy())).questions

    assert (found.asked, found.approved, found.denied, found.unanswered) == (3, 1, 1, 1)


def test_limits_tell_purchases_and_budgets_that_were_used_up() -> None:
    free = Policy(budget=BudgetConfig(day_usd=0))
    numbers = DayNumbers(events=1, bought_nano=2_500_000_000, budgets_gone={"agent": 2})

    section = report_of_numbers({FIRST: numbers}, ReportScope(FIRST, FIRST, free)).sections[0]

    told = dict(section.lines)
    assert told["Purchases"] == "$2.50"
    assert told["Budget remaining"] == "no limit"
    assert told["Budgets used up"] == "agent 2"
