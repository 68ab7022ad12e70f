"""The report of a day, or of several."""

from typing import Annotated

from msgspec import Meta

from safetyd.core.daily_report.day_report import DailyReport
from safetyd.operators.contract.question import Question
from safetyd.operators.replies import Done

DayWord = Annotated[
    str,
    Meta(
        max_length=10,
        extra_json_schema={"description": "a day as 2026-03-01, `today` or `yesterday`"},
    ),
]


class ReportAnswer(Done, frozen=True, kw_only=True):
    report: DailyReport


class ReportQuestion(Question[ReportAnswer], frozen=True, kw_only=True, tag="report"):
    """Show the report of a day, or of all days from one on.

    One day as `date`, or all days from `since` on until today; neither: today.
    """

    paths = ("/report",)
    date: DayWord = ""
    since: DayWord = ""
