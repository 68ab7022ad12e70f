"""A report in a few lines, for a message."""

from collections.abc import Iterator

from safetyd.core.daily_report.day_report import DailyReport, in_dollars, in_percent
from safetyd.core.events.notification_events import NoteSheet, SheetRule, SheetSection


def note_title(report: DailyReport) -> str:
    return f"{report.colour}: {report.name} of {report.period}"


def note_text(report: DailyReport) -> str:
    """Return the rules that gave the colour, what to do, and five numbers."""
    return "\n".join(_lines(report))


def note_sheet(report: DailyReport) -> NoteSheet:
    """Return the rules and all numbers, for a channel that has room for them."""
    return NoteSheet(
        colour=report.colour,
        rules=tuple(SheetRule(each.colour, each.says, each.todo) for each in report.found),
        sections=tuple(SheetSection(section.title, section.lines) for section in report.sections),
        more=_more(report),
    )


def _more(report: DailyReport) -> str:
    return f"safetyd report --date {report.until}"


def _lines(report: DailyReport) -> Iterator[str]:
    for found in report.found:
        yield f"{found.colour} {found.says}. {found.todo}"
    if report.health:
        yield report.health
    yield ""
    limits, scores, people = report.limits, report.scores, report.people
    left = ""
    if limits.budget_left_usd is not None:
        left = f", {in_dollars(limits.budget_left_usd)} of the budget left"
    yield f"Executed: {scores.executed:,} on their own, {scores.approved:,} after approval"
    errors = in_percent(scores.error_percent)
    yield f"Blocked: {scores.blocked:,}; failed: {scores.failed:,} ({errors})"
    yield f"Asked: {people.asked:,}, of these {report.override.waiting:,} wait"
    yield f"Cost: {in_dollars(limits.cost_usd)}{left}"
    yield f"Anomalies: {report.anomalies.total:,}"
    yield ""
    yield f"All of it: {_more(report)}"
