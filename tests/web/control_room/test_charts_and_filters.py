"""Numbers as charts and templates show them."""

from datetime import UTC, datetime
from typing import Any

import pytest
from markupsafe import Markup

from safetyd.web.control_room import template_filters as filters
from safetyd.web.control_room.room_charts import (
    breaker_chart,
    measure_chart,
    money_chart,
    report_charts,
)

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC).timestamp()


def day(series: list[float], limit: float | None = 50.0) -> dict[str, Any]:
    return {
        "at": "2026-03-01T00:20:00Z",
        "bucket_s": 900,
        "series": series,
        "today": {"spent": 2.0, "limit": limit},
        "projection": {"at_midnight": 20.0},
    }


def test_money_is_drawn_from_midnight_to_midnight() -> None:
    chart = money_chart(day([1.0, 2.0]))

    assert chart.series["x"] == [MIDNIGHT, MIDNIGHT + 900, MIDNIGHT + 1200, MIDNIGHT + 86_400]
    spent, ahead, limit = (line["y"] for line in chart.series["lines"])
    assert spent == [0.0, 1.0, 2.0, None]
    assert ahead == [None, None, 2.0, 20.0]
    assert limit == [50.0] * 4
    assert chart.says == "$2.00 spent, $20.00 by midnight UTC at this rate"


def test_money_without_a_limit_or_spending_is_drawn_too() -> None:
    chart = money_chart(day([], None))

    assert [line["name"] for line in chart.series["lines"]] == ["spent", "at this rate"]
    assert {len(line["y"]) for line in chart.series["lines"]} == {len(chart.series["x"])}


@pytest.mark.parametrize("window", [None, {"ages_s": [], "ok": []}])
def test_a_breaker_without_calls_is_not_drawn(window: object) -> None:
    assert breaker_chart({"breaker": "db", "window": window}) is None


def test_calls_of_a_breaker_are_drawn_one_beside_the_other() -> None:
    window = {"ages_s": [9.0, 2.0, 2.0], "ok": [True, False, False], "calls": 3, "failures": 2}
    chart = breaker_chart({"breaker": "db", "window": window})

    assert chart is not None
    assert chart.series["x"] == [0, 1, 2]
    assert [line["y"] for line in chart.series["lines"]] == [[None, 1.0, 1.0], [0.3, None, None]]
    assert (chart.says, chart.x) == ("2 of 3 failed, the last was 2 s ago", "calls")


@pytest.mark.parametrize(
    ("ages", "x", "seen"),
    [
        ([5.0, 3.0], [-5.0, -3.0, 0.0], [1.0, 3.0, 9.0]),
        ([], [0, 1], [1.0, 2.0]),
        (None, [0, 1], [1.0, 2.0]),
    ],
)
def test_a_measure_is_drawn_with_its_bounds(
    ages: list[float] | None, x: list[float], seen: list[float]
) -> None:
    measure = {"values": [1.0, 2.0], "now": 9.0, "unit": "usd", "detector": "cost_per_hour"}
    chart = measure_chart({**measure, "ages_s": ages, "agent": "code", "usual": 1.5, "most": 4.0})

    assert chart.series["x"] == x
    assert [line["name"] for line in chart.series["lines"]] == ["seen", "usual", "most"]
    assert chart.series["lines"][0]["y"] == seen
    assert chart.says == "now $9.00, usual $1.50, at most $4.00"
    assert chart.title == "cost per hour, code"


@pytest.mark.parametrize(
    ("now", "says"), [(0.5, "now 50 %, at most 5 %"), (0.0, "too few to judge, at most 5 %")]
)
def test_failures_are_drawn_as_their_share(now: float, says: str) -> None:
    measure = {"values": [0.0, 1.0], "now": now, "unit": "ratio", "detector": "error_rate"}
    chart = measure_chart({**measure, "most": 0.05})

    assert chart.series["lines"][0]["y"] == [0.0, 0.5]
    assert chart.says == says


@pytest.mark.parametrize(
    ("about", "whose"),
    [
        ({"breaker": "it"}, "it"),
        ({"model": "m", "agent": "it"}, "m of it"),
        ({"model": "", "agent": "it"}, "it"),
        ({}, "everybody"),
    ],
)
@pytest.mark.parametrize(
    ("now", "unit", "says"),
    [(1.0, "times", "now 1 time"), (2.0, "rounds", "now 2 rounds"), (0.12, "s", "now 0.12 s")],
)
def test_a_measure_without_a_past_says_what_it_is_about(
    about: dict[str, str], whose: str, now: float, unit: str, says: str
) -> None:
    chart = measure_chart({"values": [], "now": now, "unit": unit, "detector": "rate", **about})

    assert chart.title == f"rate, {whose}"
    assert chart.says == says
    assert chart.series["x"] == [0]


def test_a_moment_is_exact_for_who_asks() -> None:
    shown = filters.time("2026-03-01T12:00:05.250000Z")

    assert 'datetime="2026-03-01T12:00:05.250000+00:00"' in shown
    assert 'title="2026-03-01 12:00:05.250000 UTC"' in shown
    assert shown.endswith('data-as="at">Mar 01 12:00:05 UTC</time>')
    assert filters.time("2026-03-01T12:00:05Z", "ago").endswith('"ago">Mar 01 12:00:05 UTC</time>')
    left = filters.time("2026-03-01T12:00:05Z", "left")
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
        (filters.after(("2026-03-01T12:00:00Z", 1500.0)), "2026-03-01T12:00:01+00:00"),
        (filters.past("2026-03-01T12:00:00Z", "2026-03-01T12:00:01Z"), True),
        (filters.past("2026-03-01T12:00:02Z", "2026-03-01T12:00:01Z"), False),
        (filters.coded(Markup("run `a &lt; b`, not `c")), "run <code>a &lt; b</code>, not `c"),
        (filters.percent(1.0, None), 0),
        (filters.percent(1.0, 3.0), 33),
        (filters.percent(9.0, 3.0), 100),
        (filters.percent(-9.0, 3.0), 0),
        (filters.verdict("block"), "blocked"),
        (filters.verdict("other"), "other"),
        (filters.FILTERS["words"]({"text": "ls", "description": "look"}), "ls"),
        (filters.FILTERS["words"]({"text": "", "description": "look"}), "look"),
        (filters.FILTERS["words"]({}), ""),
        (filters.FILTERS["placed"]({"path": "/etc/passwd", "text": "x"}), "/etc/passwd: x"),
    ],
)
def test_values_are_said_in_few_words(given: object, said: object) -> None:
    assert given == said


def test_a_report_is_drawn_by_the_hour_and_by_confidence() -> None:
    hours = [{"allowed": n, "asked": 1, "blocked": 0, "cost_usd": 0.5} for n in range(24)]
    bins: list[dict[str, Any]] = [{"stated_percent": None, "good_percent": None}] * 8
    bins += [{"stated_percent": 85.0, "good_percent": 60.0}]
    bins += [{"stated_percent": 95.0, "good_percent": 90.0}]
    agent = {"agent": "all agents", "stated_percent": 90.0, "good_percent": 75.0, "bins": bins}

    decided, cost, confidence = report_charts({"hours": hours, "calibration": [agent, agent]})

    assert decided.says == "276 allowed, 24 asked, 0 blocked"
    assert cost.says == "$12.00 in all"
    assert confidence.series["x"] == [85.0, 95.0]
    assert [line["y"] for line in confidence.series["lines"]] == [[60.0, 90.0], [85.0, 95.0]]
    assert confidence.says == "90% stated, 75% came true"


def test_without_confidence_there_is_nothing_to_draw_of_it() -> None:
    assert len(report_charts({"hours": [], "calibration": []})) == 2
