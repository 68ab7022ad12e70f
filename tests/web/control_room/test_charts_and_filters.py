"""Numbers as charts and templates show them."""

from datetime import UTC, datetime, timedelta

import pytest
from markupsafe import Markup
from msgspec.structs import replace

from safetyd.core.daily_report.day_report import (
    AgentCalibration,
    CalibrationBin,
    DailyReport,
    HourRow,
    ReportScope,
    report_of_numbers,
)
from safetyd.core.guards.anomaly.measures import Measure, Unit
from safetyd.core.messages.proposal import Proposal
from safetyd.core.policy import Policy
from safetyd.html_templates import coded
from safetyd.operators.contract.guard_contract import (
    Breaker,
    Budget,
    CallWindow,
    MoneyAnswer,
    Projection,
)
from safetyd.web.control_room import template_filters as filters
from safetyd.web.control_room.room_charts import (
    breaker_chart,
    measure_chart,
    money_chart,
    report_charts,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC).timestamp()


BUDGET = Budget(scope="day", id="", agent=None, spent=2.0, reserved=0.0, limit=50.0, raised=0.0)


def day(series: tuple[float, ...], limit: float | None = 50.0) -> MoneyAnswer:
    return MoneyAnswer(
        ok=True,
        at=datetime(2026, 3, 1, 0, 20, tzinfo=UTC),
        bucket_s=900,
        series=series,
        today=replace(BUDGET, limit=limit),
        purchases=BUDGET,
        keyless=None,
        projection=Projection(
            over_s=900.0, spent=0.0, per_hour=0.0, at_midnight=20.0, used_up_at=None
        ),
        agents=(),
        models=(),
        sessions=(),
        left_out=0,
    )


def breaker(ok: tuple[bool, ...] = (), ages_s: tuple[float, ...] = ()) -> Breaker:
    window = CallWindow(calls=len(ok), failures=ok.count(False), in_a_row=0, ages_s=ages_s, ok=ok)
    return Breaker(
        breaker="db",
        state="closed",
        agent=None,
        reason="",
        calls=0,
        failures=0,
        probes_out=0,
        keyless=False,
        open_s=None,
        wait_s=None,
        window=window,
    )


def test_money_is_drawn_from_midnight_to_midnight() -> None:
    chart = money_chart(day((1.0, 2.0)))

    assert chart.series["x"] == [MIDNIGHT, MIDNIGHT + 900, MIDNIGHT + 1200, MIDNIGHT + 86_400]
    spent, ahead, limit = (line["y"] for line in chart.series["lines"])
    assert spent == [0.0, 1.0, 2.0, None]
    assert ahead == [None, None, 2.0, 20.0]
    assert limit == [50.0] * 4
    assert chart.says == "$2.00 spent, $20.00 by midnight UTC at this rate"


def test_money_without_a_limit_or_spending_is_drawn_too() -> None:
    chart = money_chart(day((), None))

    assert [line["name"] for line in chart.series["lines"]] == ["spent", "at this rate"]
    assert {len(line["y"]) for line in chart.series["lines"]} == {len(chart.series["x"])}


@pytest.mark.parametrize("quiet", [replace(breaker(), window=None), breaker()])
def test_a_breaker_without_calls_is_not_drawn(quiet: Breaker) -> None:
    assert breaker_chart(quiet) is None


def test_calls_of_a_breaker_are_drawn_one_beside_the_other() -> None:
    chart = breaker_chart(breaker((True, False, False), (9.0, 2.0, 2.0)))

    assert chart is not None
    assert chart.series["x"] == [0, 1, 2]
    assert [line["y"] for line in chart.series["lines"]] == [[None, 1.0, 1.0], [0.3, None, None]]
    assert (chart.says, chart.x) == ("2 of the last 3 calls failed, the last call 2 s ago", "calls")


@pytest.mark.parametrize(
    ("ages", "x", "seen"),
    [
        ((5.0, 3.0), [-5.0, -3.0, 0.0], [1.0, 3.0, 9.0]),
        ((), [0, 1], [1.0, 2.0]),
    ],
)
def test_a_measure_is_drawn_with_its_bounds(
    ages: tuple[float, ...], x: list[float], seen: list[float]
) -> None:
    measure = Measure(
        values=(1.0, 2.0),
        ages_s=ages,
        now=9.0,
        unit="usd",
        detector="cost_per_hour",
        agent="code",
        usual=1.5,
        most=4.0,
    )
    chart = measure_chart(measure)

    assert chart.series["x"] == x
    assert [line["name"] for line in chart.series["lines"]] == ["seen", "usual", "most"]
    assert chart.series["lines"][0]["y"] == seen
    assert chart.says == "now $9.00, usual $1.50, at most $4.00"
    assert chart.title == "Cost per hour, code"


@pytest.mark.parametrize(
    ("now", "says"), [(0.5, "now 50 %, at most 5 %"), (0.0, "too few to judge, at most 5 %")]
)
def test_failures_are_drawn_as_their_share(now: float, says: str) -> None:
    measure = Measure(values=(0.0, 1.0), now=now, unit="ratio", detector="error_rate", most=0.05)
    chart = measure_chart(measure)

    assert chart.series["lines"][0]["y"] == [0.0, 0.5]
    assert chart.says == says


@pytest.mark.parametrize(
    ("about", "whose"),
    [
        ({"breaker": "it"}, "it"),
        ({"model": "m", "agent": "it"}, "m of it"),
        ({"model": "", "agent": "it"}, "it"),
        ({}, "all agents"),
    ],
)
@pytest.mark.parametrize(
    ("now", "unit", "says"),
    [(1.0, "times", "now 1 time"), (2.0, "rounds", "now 2 rounds"), (0.12, "s", "now 0.12 s")],
)
def test_a_measure_without_a_past_says_what_it_is_about(
    about: dict[str, str], whose: str, now: float, unit: Unit, says: str
) -> None:
    chart = measure_chart(replace(Measure(now=now, unit=unit, detector="rate"), **about))

    assert chart.title == f"Rate, {whose}"
    assert chart.says == says
    assert chart.series["x"] == [0]


def test_a_moment_is_exact_for_who_asks() -> None:
    shown = filters.time(datetime.fromisoformat("2026-03-01T12:00:05.250000Z"))

    assert 'datetime="2026-03-01T12:00:05.250000+00:00"' in shown
    assert 'title="2026-03-01 12:00:05.250000 UTC"' in shown
    assert shown.endswith('data-as="at">Mar 01 12:00:05 UTC</time>')
    assert filters.time(datetime.fromisoformat("2026-03-01T12:00:05Z"), "ago").endswith(
        '"ago">Mar 01 12:00:05 UTC</time>'
    )
    left = filters.time(datetime.fromisoformat("2026-03-01T12:00:05Z"), "left")
    assert left.endswith('"left">until Mar 01 12:00:05 UTC</time>')
    assert filters.time(None) == ""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (filters.money(None), "no limit"),
        (filters.money(1234.5), "$1,234.50"),
        (filters.number(1500.0), "1,500"),
        (filters.number(0.25), "0.2"),
        (filters.span(None), ""),
        (filters.span(90.0), "1 min"),
        (filters.series([1, None]), "[1,null]"),
        (filters.after((NOON, 1500.0)), NOON + timedelta(seconds=1)),
        (filters.past(NOON, NOON + timedelta(seconds=1)), True),
        (filters.past(NOON, NOON - timedelta(seconds=1)), False),
        (coded(Markup("run `a &lt; b`, not `c")), "run <code>a &lt; b</code>, not `c"),
        (filters.percent(1.0, None), 0),
        (filters.percent(1.0, 3.0), 33),
        (filters.percent(9.0, 3.0), 100),
        (filters.percent(-9.0, 3.0), 0),
        (filters.verdict("block"), "blocked"),
        (filters.verdict("other"), "other"),
        (filters.words(Proposal(type="x", text="ls", description="look")), "ls"),
        (filters.words(Proposal(type="x", description="look")), "look"),
        (filters.words(Proposal(type="x")), ""),
    ],
)
def test_values_are_said_in_few_words(given: object, said: object) -> None:
    assert given == said


@pytest.fixture
def report() -> DailyReport:
    day = NOON.date()
    return report_of_numbers({}, ReportScope(day, day, Policy()))


def calibrated(stated: float | None, good: float | None) -> CalibrationBin:
    return CalibrationBin(
        from_percent=0,
        stated_percent=stated,
        good_percent=good,
        succeeded=0,
        failed=0,
        approved=0,
        denied=0,
    )


def test_a_report_is_drawn_by_the_hour_and_by_confidence(report: DailyReport) -> None:
    hours = tuple(HourRow(allowed=n, asked=1, blocked=0, cost_usd=0.5) for n in range(24))
    bins = (calibrated(None, None),) * 8 + (calibrated(85.0, 60.0), calibrated(95.0, 90.0))
    agent = AgentCalibration(
        agent="all agents",
        count=1,
        stated_percent=90.0,
        good_percent=75.0,
        gap_percent=15.0,
        bins=bins,
    )

    charts = report_charts(replace(report, hours=hours, calibration=(agent, agent)))

    decided, cost, confidence = charts
    assert decided.says == "276 allowed, 24 needed approval, 0 blocked"
    assert cost.says == "$12.00 in total"
    assert confidence.series["x"] == [85.0, 95.0]
    assert [line["y"] for line in confidence.series["lines"]] == [[60.0, 90.0], [85.0, 95.0]]
    assert confidence.says == "90% stated, 75% succeeded"


def test_without_confidence_there_is_nothing_to_draw_of_it(report: DailyReport) -> None:
    assert len(report_charts(replace(report, hours=(), calibration=()))) == 2
