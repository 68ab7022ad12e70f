"""The daily report at a terminal: the colour and what to do first, then the numbers."""

from collections.abc import Iterator

from safetyd.console.render.layout import aligned, indented
from safetyd.console.terminal_text import plain
from safetyd.core.daily_report.day_report import DailyReport


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
        yield from ("", "Questions that repeated")
    for question in report.questions:
        yield f"  {plain(question.what)}"
        yield f"    {question.outcome}"
        yield from (f"      {plain(line)}" for line in question.spared.splitlines())
    for heading, rows in report.tables:
        yield from ("", heading)
        cells = [[plain(cell, 60) for cell in row] for row in rows]
        yield from (f"  {line}" for line in aligned(cells).splitlines())
