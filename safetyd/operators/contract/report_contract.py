"""The daily report, or one for several days."""

from typing import Annotated

from msgspec import Meta

from safetyd.core.daily_report.day_report import DailyReport
from safetyd.operators.contract.question import Question
from safetyd.operators.replies import Done

DayWord = Annotated[
    str,
    Meta(
        max_length=10,
        extra_json_schema={"description": "a date such as 2026-03-01, `today` or `yesterday`"},
    ),
]


class ReportAnswer(Done, frozen=True, kw_only=True):
    report: DailyReport


class ReportQuestion(Question[ReportAnswer], frozen=True, kw_only=True, tag="report"):
    """Show the daily report, or one for several days.

    `date` is one day, `since` is the first of several days up to today. Without either, the report
    is for today.
    """

    paths = ("/report",)
    date: DayWord = ""
    since: DayWord = ""
