"""The daily report at a terminal: the colour and what to do first, then the numbers."""

from collections.abc import Iterator

from safetyd.console.render.layout import indented, table
from safetyd.console.terminal_text import plain
from safetyd.core.daily_report.report_parts import DailyReport
from safetyd.reports.report_sections import (
    CALIBRATION,
    calibration_rows,
    day_rows,
    days,
    health,
    questions,
    sections,
)


def report_text(report: DailyReport) -> str:
    return "\n".join(_lines(report)) + "\n"


def _lines(report: DailyReport) -> Iterator[str]:
    yield f"{report.colour}  {plain(days(report))}"
    for found in report.found:
        yield f"  {found.colour} {plain(found.says)}"
        yield f"      {found.todo}"
    if said := health(report):
        yield f"  {said}"
    for section in sections(report):
        yield ""
        yield section.title
        yield from indented((line.name, plain(line.value)) for line in section.lines)
    if report.questions:
        yield from ("", "Questions that repeated")
    for question in questions(report):
        yield f"  {plain(question.what)}"
        yield f"    {question.answers}{_spared(question.spared_by)}"
        yield from (f"      {plain(line)}" for line in question.spared.splitlines())
    for heading, rows in (
        (CALIBRATION, calibration_rows(report)),
        ("Days", day_rows(report)),
    ):
        if rows:
            yield from ("", heading)
            cells = [[plain(cell, 60) for cell in row] for row in rows]
            yield from (f"  {line}" for line in table(cells).splitlines())


def _spared(by: str) -> str:
    return f"; {by}:" if by else ""
