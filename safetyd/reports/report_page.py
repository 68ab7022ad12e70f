"""A report as a page of HTML that needs nothing else."""

from functools import cache

from jinja2 import Environment
from markupsafe import Markup

from safetyd.core.daily_report.report_parts import DailyReport
from safetyd.html_templates import environment, seen
from safetyd.reports.bar_charts import bar_charts
from safetyd.reports.report_sections import (
    CALIBRATION,
    calibration_rows,
    day_rows,
    health,
    questions,
    sections,
    title,
)


def page(report: DailyReport) -> str:
    return (
        _environment()
        .get_template("report.html")
        .render(
            report=report,
            title=title(report),
            health=health(report),
            sections=sections(report),
            charts=bar_charts(report),
            questions=questions(report),
            tables=((CALIBRATION, calibration_rows(report)), ("Days", day_rows(report))),
        )
    )


def _lines(text: str) -> Markup:
    """Return several lines in which everything can be seen."""
    return Markup("\n").join(seen(line) for line in text.splitlines())


@cache
def _environment() -> Environment:
    return environment("safetyd.reports", lines=_lines)
