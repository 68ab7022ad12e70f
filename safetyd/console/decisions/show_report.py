"""`safetyd report`: the daily report, from the daemon or from the audit files."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from safetyd.clock import Clock, uptime
from safetyd.console.failure import Failure, NotReachable, WrongUsage
from safetyd.console.help_page import command
from safetyd.console.locations import Location
from safetyd.console.operator_connection import ask
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.render.layout import aligned, indented
from safetyd.console.subcommands.read_records import readable
from safetyd.console.terminal_text import document, plain
from safetyd.core.daily_report.day_report import SPARING, DailyReport
from safetyd.extras.reports.day_reading import DayReading, policy_now
from safetyd.extras.reports.report_maker import days_of, report_of
from safetyd.extras.reports.report_words import markdown
from safetyd.journal.audit_reading import Rests
from safetyd.operators.contract.report_contract import ReportQuestion
from safetyd.operators.replies import CommandRefused

SEARCH_S: Final = 120.0  # long, because the daemon pauses the search to serve agents first
LATE_S: Final = 1.0  # progress is shown after this time


@command(sends=ReportQuestion)
@click.option(
    "--date", "day", metavar="D", help="The day: 2026-03-01, today or yesterday. Default: today."
)
@click.option("--since", metavar="D", help="The first day of a report over several days.")
@click.option("--md", "as_md", is_flag=True, help="Print Markdown.")
@click.option("--html", "as_html", is_flag=True, help="Print HTML.")
@json_option
@reaches_daemon
def report(
    location: Location,
    *,
    day: str | None,
    since: str | None,
    as_md: bool,
    as_html: bool,
    as_json: bool,
) -> None:
    """Days begin at midnight in the time zone that notifications.timezone sets. If no daemon is
    running, the same report is made from the audit files.

    For example:
      safetyd report --date yesterday
      safetyd report --since 2026-03-01 --md > report.md
    """
    if as_md + as_html + as_json > 1:
        raise WrongUsage("give only one of --md, --html and --json")
    if day and since:
        raise WrongUsage("give --date for one day or --since for several days, not both")
    asked = ReportQuestion(date=day or "", since=since or "")
    made = _made(location, asked)
    if as_json:
        click.echo(document({"ok": True, "report": made}))
    elif as_html:
        from safetyd.extras.reports.report_page import page  # noqa: PLC0415 - it loads what makes pages

        click.echo(page(made), nl=False)
    else:
        click.echo(markdown(made) if as_md else report_text(made), nl=False)


def _made(location: Location, asked: ReportQuestion) -> DailyReport:
    try:
        return ask(location, asked, patience_s=SEARCH_S).report
    except NotReachable as exc:
        return _from_files(readable(location, exc), asked)


def _from_files(audit: Path, asked: ReportQuestion) -> DailyReport:
    """Make the report from the audit files, without a daemon."""
    progress = ReadingProgress()
    try:
        zone = policy_now(audit).zone
        days = days_of(asked, Clock().now().at.astimezone(zone).date())
        reading = DayReading(audit, days.since, days.until)
        return report_of(reading, days, Rests(0.0), progress.show)
    except CommandRefused as exc:
        raise WrongUsage(str(exc)) from exc
    except OSError as exc:
        raise Failure(f"cannot read {audit}: {exc.strerror}") from exc
    finally:
        progress.end()


class ReadingProgress:
    """Shows progress on a terminal if reading takes longer than a second."""

    def __init__(self) -> None:
        self._begun = uptime()
        self._wanted = sys.stderr.isatty()
        self._shown = False

    def show(self, part: float) -> None:
        if self._wanted and uptime() - self._begun > LATE_S:
            self._shown = True
            click.echo(f"\rReading the audit files: {part:.0%} ", err=True, nl=False)

    def end(self) -> None:
        if self._shown:
            click.echo("\r\033[K", err=True, nl=False)


def report_text(report: DailyReport) -> str:
    return "\n".join(_lines(report)) + "\n"


def _lines(report: DailyReport) -> Iterator[str]:
    yield f"{report.colour}  {plain(report.period)}"
    for found in report.found:
        yield f"  {found.colour} {plain(found.says)}"
        yield f"      {found.todo}"
    if report.health:
        yield f"  {report.health}"
    for section in report.sections:
        yield ""
        yield section.title
        yield from indented((name, plain(value)) for name, value in section.lines)
    if report.questions:
        yield from ("", "Repeated requests")
    for question in report.questions:
        yield f"  {plain(question.what)}"
        yield f"    {question.outcome}"
        yield from (f"      {plain(line)}" for line in question.spared.splitlines())
    if report.changes:
        yield from ("", SPARING)
    for change in report.changes:
        yield f"  {plain(change.says)}"
        yield from (f"      {plain(line, 2000)}" for line in change.change.splitlines())
    for heading, rows in report.tables:
        yield from ("", heading)
        cells = [[plain(cell, 60) for cell in row] for row in rows]
        yield from (f"  {line}" for line in aligned(cells).splitlines())
