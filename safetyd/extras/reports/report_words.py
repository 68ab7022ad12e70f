"""A report as Markdown, which is stored, and as a few lines for a message."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from safetyd.core.daily_report.day_report import SPARING, DailyReport, in_dollars, in_percent
from safetyd.core.events.notification_events import NoteSheet, SheetRule, SheetSection
from safetyd.core.text.visible_text import visible

_MARKUP: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


def markdown(report: DailyReport) -> str:
    return "\n".join(_markdown_lines(report)) + "\n"


def _markdown_lines(report: DailyReport) -> Iterator[str]:
    yield f"## {escaped(report.title)}"
    yield ""
    yield f"### Overall Health: {report.colour}"
    yield ""
    for found in report.found:
        yield f"- {found.colour} {escaped(found.says)}. {found.todo}"
    if report.health:
        yield f"- {report.health}"
    for section in report.sections:
        yield ""
        yield f"### {section.title}"
        yield ""
        yield from (f"- {name}: {escaped(value)}" for name, value in section.lines)
    yield from _questions(report)
    yield from _changes(report)
    for heading, rows in report.tables:
        yield from ("", f"### {heading}", "")
        yield from _table(rows)


def _questions(report: DailyReport) -> Iterator[str]:
    if not report.questions:
        return
    yield from ("", "### Repeated requests", "")
    for question in report.questions:
        yield f"- {code(question.what)} {question.outcome}"
        yield from (f"  - {code(line)}" for line in question.spared.splitlines())


def _changes(report: DailyReport) -> Iterator[str]:
    if not report.changes:
        return
    yield from ("", f"### {SPARING}", "")
    for change in report.changes:
        yield f"- {escaped(change.says)}"
        yield from (f"  - {code(line)}" for line in change.change.splitlines())


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        yield f"| {' | '.join(escaped(cell) for cell in row)} |"
        if number == 0:
            yield f"|{'|'.join(' --- ' for _ in row)}|"


def escaped(text: str) -> str:
    """Return text on one line with all markup escaped."""
    return _MARKUP.sub(r"\\\1", visible(text))


def code(text: str) -> str:
    """Return text as Markdown code, even if it contains backticks."""
    return f"`` {visible(text).replace('`', chr(39))} ``"


def note_title(report: DailyReport) -> str:
    return f"{report.colour}: {report.name} of {report.period}"


def note_text(report: DailyReport) -> str:
    """Return the reasons for the status, the advice, and five numbers."""
    return "\n".join(_note_lines(report))


def note_sheet(report: DailyReport) -> NoteSheet:
    """Return the reasons and all numbers, for a channel with enough space."""
    return NoteSheet(
        colour=report.colour,
        rules=tuple(SheetRule(each.colour, each.says, each.todo) for each in report.found),
        sections=tuple(SheetSection(section.title, section.lines) for section in report.sections),
        more=_more(report),
    )


def _more(report: DailyReport) -> str:
    return f"safetyd report --date {report.until}"


def _note_lines(report: DailyReport) -> Iterator[str]:
    for found in report.found:
        yield f"{found.colour} {found.says}. {found.todo}"
    if report.health:
        yield report.health
    yield ""
    limits, scores, people = report.limits, report.scores, report.people
    left = ""
    if limits.budget_left_usd is not None:
        left = f", {in_dollars(limits.budget_left_usd)} of the budget left"
    yield f"Executed: {scores.executed:,} without approval, {scores.approved:,} after approval"
    errors = in_percent(scores.error_percent)
    yield f"Blocked: {scores.blocked:,}; failed: {scores.failed:,} ({errors})"
    yield f"Requests: {people.asked:,} new, {report.override.waiting:,} pending"
    yield f"Cost: {in_dollars(limits.cost_usd)}{left}"
    yield f"Anomalies: {report.anomalies.total:,}"
    yield f"Messages: {report.messages.says}"
    yield ""
    yield f"Full report: {_more(report)}"
