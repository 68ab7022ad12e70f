"""A report as a self-contained HTML page with bar charts."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

from jinja2 import Environment
from markupsafe import Markup

from safetyd.core.daily_report.day_report import DailyReport, in_dollars
from safetyd.html_templates import environment, seen

WIDTH: Final = 480
HEIGHT: Final = 100


class Bar(NamedTuple):
    """A bar and its position in the chart. `says` is its tooltip."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    says: str


class BarChart(NamedTuple):
    """`ticks` are labels below the chart, with their positions; `most` is the label at the top."""

    title: str
    says: str
    bars: tuple[Bar, ...]
    ticks: tuple[tuple[float, str], ...]
    most: str


class _Column(NamedTuple):
    """A column of stacked values, each with its kind and its tooltip."""

    name: str
    parts: tuple[tuple[str, float, str], ...]

    @property
    def total(self) -> float:
        return sum(value for _, value, _ in self.parts)


def bar_charts(report: DailyReport) -> list[BarChart]:
    """Return charts of decisions and cost per hour and, if agents stated it, of confidence."""
    charts = [_decisions(report), _cost(report)]
    return [*charts, *_confidence(report)]


def _decisions(report: DailyReport) -> BarChart:
    kinds = ("allowed", "asked", "blocked")
    columns = [
        _Column(
            f"{number:02}:00",
            tuple((kind, float(getattr(hour, kind)), f"{getattr(hour, kind):,}") for kind in kinds),
        )
        for number, hour in enumerate(report.hours)
    ]
    sums = ", ".join(f"{sum(getattr(h, kind) for h in report.hours):,} {kind}" for kind in kinds)
    most = max((column.total for column in columns), default=0.0)
    return _chart("Decisions per hour", sums, columns, most, f"{most:,.0f}")


def _cost(report: DailyReport) -> BarChart:
    columns = [
        _Column(f"{number:02}:00", (("cost", hour.cost_usd, in_dollars(hour.cost_usd)),))
        for number, hour in enumerate(report.hours)
    ]
    most = max((column.total for column in columns), default=0.0)
    total = in_dollars(sum(hour.cost_usd for hour in report.hours))
    return _chart("Cost per hour", f"{total} in all", columns, most, in_dollars(most))


def _confidence(report: DailyReport) -> Iterator[BarChart]:
    for agent in report.calibration[:1]:  # all together
        columns = [
            _Column(
                f"{each.from_percent}+",
                (("allowed", each.good_percent or 0.0, f"{each.good_percent or 0.0:.0f}%"),),
            )
            for each in agent.bins
        ]
        says = f"{agent.stated_percent:.0f}% stated, {agent.good_percent:.0f}% succeeded"
        title = "Success rate by stated confidence"
        yield _chart(title, says, columns, 100.0, "100%")


def _chart(title: str, says: str, columns: Sequence[_Column], most: float, label: str) -> BarChart:
    step = WIDTH / max(len(columns), 1)
    every = 1 if len(columns) <= 12 else 6  # noqa: PLR2004 - labels that have room
    ticks = ((round(n * step, 1), column.name) for n, column in enumerate(columns))
    return BarChart(
        title,
        says,
        tuple(_bars(columns, step, most)),
        tuple(ticks)[::every],
        label if most else "",
    )


def _bars(columns: Iterable[_Column], step: float, most: float) -> Iterator[Bar]:
    for number, column in enumerate(columns):
        top = float(HEIGHT)
        for kind, value, words in column.parts:
            if not value:
                continue
            height = HEIGHT * value / most
            top -= height
            says = f"{column.name} {words} {kind}"
            yield Bar(round(number * step + 1, 1), round(top, 1), step - 2, height, kind, says)


def page(report: DailyReport) -> str:
    template = _environment().get_template("report.html")
    return template.render(report=report, charts=bar_charts(report))


def _lines(text: str) -> Markup:
    """Return lines with invisible characters made visible."""
    return Markup("\n").join(seen(line) for line in text.splitlines())


@cache
def _environment() -> Environment:
    return environment("safetyd.extras.reports", lines=_lines)
