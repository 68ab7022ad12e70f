"""A report as a page of HTML that needs nothing else."""

from functools import cache

from jinja2 import Environment
from markupsafe import Markup

from safetyd.core.daily_report.day_report import DailyReport
from safetyd.extras.reports.bar_charts import bar_charts
from safetyd.html_templates import environment, seen


def page(report: DailyReport) -> str:
    template = _environment().get_template("report.html")
    return template.render(report=report, charts=bar_charts(report))


def _lines(text: str) -> Markup:
    """Return several lines in which everything can be seen."""
    return Markup("\n").join(seen(line) for line in text.splitlines())


@cache
def _environment() -> Environment:
    return environment("safetyd.extras.reports", lines=_lines)
