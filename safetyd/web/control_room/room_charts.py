"""Charts: the series that charts.js draws, and a caption with the same content."""

from collections.abc import Sequence
from datetime import UTC
from itertools import accumulate
from typing import Final, Literal, NamedTuple, NotRequired, TypedDict

from safetyd.core.daily_report.day_report import AgentCalibration, DailyReport
from safetyd.core.guards.anomaly.measures import Measure
from safetyd.core.text.time_words import complete
from safetyd.operators.contract.guard_contract import Breaker, MoneyAnswer

# The horizontal axis: time of day, seconds ago, order, hour of the day, percent, or calls (bars).
Axis = Literal["time", "ago", "order", "hour", "percent", "calls"]

DAY_S: Final = 24 * 3600
LOW: Final = 0.3  # height of a successful call; a failure has height 1


class Line(TypedDict):
    """A line of a chart; `colour` is a variable of the style sheet."""

    name: str
    y: Sequence[float | None]
    colour: NotRequired[str]
    dashed: NotRequired[bool]


class Series(TypedDict):
    x: Sequence[float | None]
    lines: Sequence[Line]


class Chart(NamedTuple):
    """A chart of `series` in `unit`, with the caption `says`."""

    title: str
    says: str
    series: Series
    x: Axis
    unit: str


def money_chart(money: MoneyAnswer) -> Chart:
    """Return today's spending, its projection to midnight, and the limit."""
    now = money.at
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    spent = money.series
    ends = [min(midnight + (n + 1) * money.bucket_s, now.timestamp()) for n in range(len(spent))]
    x = [midnight, *ends, midnight + DAY_S]
    today = money.today
    last = spent[-1] if spent else 0.0
    grown = [0.0, *spent, None]
    ahead: list[float | None] = [None] * (len(x) - 2)
    lines: list[Line] = [
        {"name": "spent", "y": grown},
        {
            "name": "at this rate",
            "y": [*ahead, last, money.projection.at_midnight],
            "dashed": True,
            "colour": "--warn",
        },
    ]
    if today.limit is not None:
        y = [today.limit] * len(x)
        lines.append({"name": "limit", "y": y, "colour": "--bad", "dashed": True})
    ahead_usd = money.projection.at_midnight
    says = f"${today.spent:,.2f} spent, ${ahead_usd:,.2f} by midnight UTC at this rate"
    return Chart("Today", says, {"x": x, "lines": lines}, "time", "usd")


def report_charts(report: DailyReport) -> list[Chart]:
    """Return decisions and cost by hour, and stated confidence against results."""
    hours = report.hours
    x = list(range(len(hours)))
    counts = {
        "allowed": ([hour.allowed for hour in hours], "--yes"),
        "needed approval": ([hour.asked for hour in hours], "--warn"),
        "blocked": ([hour.blocked for hour in hours], "--no"),
    }
    decided: list[Line] = [
        {"name": name, "y": y, "colour": colour} for name, (y, colour) in counts.items()
    ]
    totals = ", ".join(f"{sum(y)} {name}" for name, (y, _) in counts.items())
    spent = [hour.cost_usd for hour in hours]
    charts = [
        Chart("Decisions by hour", totals, {"x": x, "lines": decided}, "hour", "decisions"),
        Chart(
            "Cost by hour",
            f"${sum(spent):.2f} in total",
            {"x": x, "lines": [{"name": "spent", "y": spent}]},
            "hour",
            "usd",
        ),
    ]
    return charts + [calibration_chart(each) for each in report.calibration[:1]]


def calibration_chart(agent: AgentCalibration) -> Chart:
    """Return the share of good outcomes for each stated confidence."""
    bins = [each for each in agent.bins if each.good_percent is not None]
    x = [each.stated_percent for each in bins]
    lines: list[Line] = [
        {"name": "succeeded", "y": [each.good_percent for each in bins]},
        {"name": "as stated", "y": x, "colour": "--soft", "dashed": True},
    ]
    says = f"{agent.stated_percent:.0f}% stated, {agent.good_percent:.0f}% succeeded"
    title = f"Confidence and results of {agent.agent}"
    return Chart(title, says, {"x": x, "lines": lines}, "percent", "percent")


def breaker_chart(breaker: Breaker) -> Chart | None:
    """Return the recent calls of a breaker as bars. Failed calls have higher bars."""
    window = breaker.window
    if not window or not window.ok:
        return None
    calls = window.ok
    lines: list[Line] = [
        {"name": "failed", "y": [None if ok else 1.0 for ok in calls], "colour": "--bad"},
        {"name": "succeeded", "y": [LOW if ok else None for ok in calls], "colour": "--good"},
    ]
    failed = f"{calls.count(False)} of the last {len(calls)} calls failed"
    says = f"{failed}, the last call {complete(window.ages_s[-1])} ago"
    series: Series = {"x": list(range(len(calls))), "lines": lines}
    return Chart("Calls", says, series, "calls", "")


def measure_chart(measure: Measure) -> Chart:
    """Return the values of a detector, the usual value and the bounds."""
    seen, x, kind = _seen(measure)
    lines: list[Line] = [{"name": "seen", "y": seen}]
    for name, level, colour in (
        ("usual", measure.usual, "--good"),
        ("most", measure.most, "--bad"),
        ("least", measure.least, "--bad"),
    ):
        if level is not None:
            y = [level] * len(seen)
            lines.append({"name": name, "y": y, "colour": colour, "dashed": True})
    model = f"{measure.model} of " if measure.model else ""
    about = measure.agent or measure.breaker or "all agents"
    title = f"{measure.detector.replace('_', ' ').capitalize()}, {model}{about}"
    unit = measure.unit
    bounds = (("usual", measure.usual), ("at most", measure.most))
    known = "".join(f", {name} {_amount(to, unit)}" for name, to in bounds if to is not None)
    now = f"now {_amount(measure.now, unit)}"
    if unit == "ratio" and not measure.now and any(measure.values):
        now = "too few to judge"
    return Chart(title, now + known, {"x": x, "lines": lines}, kind, unit)


def _seen(measure: Measure) -> tuple[list[float], list[float], Axis]:
    """Return the values that are compared with the bounds, and their positions on the axis.

    Values with times are added up. For ratios, the result is the share of failures so far. Other
    series are returned unchanged.
    """
    values, ages = measure.values, measure.ages_s
    if len(ages) == len(values) > 0:
        sums = [*accumulate(values), measure.now]
        return sums, [*(-age for age in ages), 0.0], "ago"
    if measure.unit == "ratio":
        values = tuple(failed / count for count, failed in enumerate(accumulate(values), 1))
    seen = list(values) or [measure.now]
    return seen, list(range(len(seen))), "order"


def _amount(value: float, unit: str) -> str:
    """Return a number with its unit."""
    match unit:
        case "usd":
            return f"${value:,.2f}"
        case "ratio":
            return f"{100 * value:.3g} %"
        case "s" | "h":
            return f"{value:.3g} {unit}"
    return _several(value, unit)


def _several(count: float, things: str) -> str:
    return f"{count:.3g} {things.removesuffix('s') if count == 1 else things}"
