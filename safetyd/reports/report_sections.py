"""A report as people read it: sections of lines, the same in every form that it has.

What agents chose, as names and commands, is in these lines as it is: whoever shows them makes it
harmless for where it is shown.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from safetyd.core.daily_report.report_parts import AgentCalibration, DailyReport
from safetyd.core.daily_report.spared_questions import RepeatedQuestion
from safetyd.core.messages.money import dollars, nano
from safetyd.core.text.time_words import duration, exact

NOTHING: Final = "-"
CALIBRATION: Final = "Calibration: percent that came true, by the confidence stated"
_SPARED: Final = {
    "grant": "this grant would have spared it",
    "rule": "this rule would have spared it",
    "remedy": "it would have passed",
}
HOUR_S: Final = 3600


class SectionLine(NamedTuple):
    name: str
    value: str


class Section(NamedTuple):
    title: str
    lines: tuple[SectionLine, ...]


class QuestionLines(NamedTuple):
    """A question that repeated: what it was, how it was answered, and what would have spared it."""

    what: str
    answers: str
    spared_by: str
    spared: str


def title(report: DailyReport) -> str:
    name = "Daily Report" if report.since == report.until else "Report"
    return f"Safety Net {name} - {days(report)}"


def days(report: DailyReport) -> str:
    said = report.since if report.since == report.until else f"{report.since} to {report.until}"
    return f"{said} ({report.zone}{', so far' if report.so_far else ''})"


def of_today(report: DailyReport, name: str) -> str:
    """Return the name of a number, which says "today" only of the day that goes on."""
    return f"{name} today" if report.so_far and report.since == report.until else name


def health(report: DailyReport) -> str:
    """Say in a sentence what the colour means, if no rule does."""
    return "" if report.found else "No rule found anything."


def sections(report: DailyReport) -> tuple[Section, ...]:
    """Return the five layers, and then people."""
    parts = (
        ("Layer 1: Cooldowns & Limits", _limits(report)),
        ("Layer 2: Threshold Scores", _scores(report)),
        ("Layer 3: Version History", _versions(report)),
        ("Layer 4: Human Override", _override(report)),
        ("Layer 5: Anomaly Detection", _anomalies(report)),
        ("People", _people(report)),
    )
    return tuple(
        Section(name, tuple(SectionLine(*line) for line in lines)) for name, lines in parts
    )


def questions(report: DailyReport) -> tuple[QuestionLines, ...]:
    return tuple(map(_question, report.questions))


def calibration_rows(report: DailyReport) -> list[tuple[str, ...]]:
    """Return a table: a heading, and a row for each agent."""
    if not report.calibration:
        return []
    tenths = tuple(f"{each.from_percent}+" for each in report.calibration[0].bins)
    heading = ("agent", "stated", "came true", "gap", "number", *tenths)
    return [heading, *map(_calibrated, report.calibration)]


def day_rows(report: DailyReport) -> list[tuple[str, ...]]:
    """Return a table of the days, if there are several."""
    if not report.days:
        return []
    heading = ("day", "colour", "executed", "escalated", "blocked", "cost", "because of")
    return [
        heading,
        *(
            (
                row.day,
                row.colour,
                f"{row.executed:,}",
                f"{row.escalated:,}",
                f"{row.blocked:,}",
                usd(row.cost_usd),
                ", ".join(row.rules).replace("_", " ") or NOTHING,
            )
            for row in report.days
        ),
    ]


def usd(amount: float) -> str:
    return dollars(nano(amount))


def percent(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1f}%"


def _limits(report: DailyReport) -> Iterator[tuple[str, str]]:
    part = report.limits
    yield of_today(report, "Total iterations"), f"{part.iterations:,}"
    yield of_today(report, "API cost"), usd(part.cost_usd)
    if part.bought_usd:
        yield of_today(report, "Purchases"), usd(part.bought_usd)
    left = "no limit"
    if part.budget_left_usd is not None:
        left = f"{usd(part.budget_left_usd)} ({part.budget_left_percent:.0f}%)"
    yield "Budget remaining", left
    if part.budgets_gone:
        yield "Budgets used up", _counted(part.budgets_gone)


def _scores(report: DailyReport) -> Iterator[tuple[str, str]]:
    part = report.scores
    granted = f" ({part.by_grant:,} by a grant)" if part.by_grant else ""
    yield "Actions auto-executed", f"{part.executed:,}{granted}"
    yield "Actions escalated", f"{part.escalated:,}"
    yield "Average confidence", percent(part.confidence_percent)
    yield "Actions blocked", f"{part.blocked:,}"
    yield "Executed after approval", f"{part.approved:,}"
    failed = f"{part.failed:,} failed ({percent(part.error_percent)})"
    unreported = f", {part.overdue:,} not reported" if part.overdue else ""
    yield "Outcomes", f"{part.succeeded:,} ok, {failed}{unreported}"
    if part.rules:
        yield "Rules that restricted most", _counted(part.rules)


def _versions(report: DailyReport) -> Iterator[tuple[str, str]]:
    part = report.versions
    failed = f" ({part.commits_failed:,} failed)" if part.commits_failed else ""
    yield of_today(report, "Commits"), f"{part.commits:,}{failed}"
    yield of_today(report, "Rollbacks"), f"{part.rollbacks:,}"
    yield "State snapshots", f"{part.snapshots}{_in_brackets(part.snapshots_missing)}"


def _override(report: DailyReport) -> Iterator[tuple[str, str]]:
    part = report.override
    yield "Emergency stops", f"{part.stops:,}"
    kinds = f" ({_counted(part.by_kind).replace('_', ' ')})" if part.by_kind else ""
    yield "Manual interventions", f"{part.interventions:,}{kinds}"
    yield "Decision queue items", f"{part.queue:,} asked, {part.waiting:,} waiting at the end"
    alone_s = part.without_person_s
    alone = f"{alone_s // HOUR_S} h" if alone_s >= HOUR_S else duration(alone_s)
    yield "Longest without a person", alone


def _anomalies(report: DailyReport) -> Iterator[tuple[str, str]]:
    part = report.anomalies
    yield "Anomalies detected", f"{part.total:,}"
    severities = ("critical", "high", "medium", "low")
    counts = " ".join(f"{name.upper()}({getattr(part, name)})" for name in severities)
    yield "Severity breakdown", counts
    patterns = "; ".join(
        f"{row.rule} {_times(row.count)}{_in_brackets(row.agents)}" for row in part.patterns
    )
    yield "Patterns observed", patterns or "none"


def _people(report: DailyReport) -> Iterator[tuple[str, str]]:
    part = report.people
    joined = f", and {part.joined:,} more proposals joined" if part.joined else ""
    yield "Asked", f"{_times(part.asked)}{joined}"
    ended = (
        (part.approved, "approved"),
        (part.denied, "denied"),
        (part.expired, "without an answer"),
        (part.withdrawn, "withdrawn"),
    )
    yield "Answers", ", ".join(f"{number:,} {how}" for number, how in ended)
    if part.average_s is not None and part.longest_s is not None:
        yield (
            "Time to answer",
            f"{exact(part.average_s)} on average, {exact(part.longest_s)} at most",
        )
        yield "Answered", ", ".join(_spans(report))
    untold = f"; {part.untold:,} could be told to nobody" if part.untold else ""
    yield "Messages sent", f"{part.messages:,}{untold}"


def _spans(report: DailyReport) -> Iterator[str]:
    for span in report.people.spans:
        if span.answers:
            within = "later" if span.below_s is None else f"within {duration(span.below_s)}"
            yield f"{span.answers:,} {within}"


def _question(each: RepeatedQuestion) -> QuestionLines:
    where = f" in {each.project}" if each.project else ""
    text = f": {each.text}" if each.text else ""
    answers = (
        (each.approved, "approved"),
        (each.denied, "denied"),
        (each.unanswered, "without an answer"),
    )
    said = ", ".join(f"{number:,} {how}" for number, how in answers if number) or "not answered yet"
    return QuestionLines(
        f"{each.type} by {each.agent}{where}{text}",
        f"asked {_times(each.asked)}: {said}",
        _SPARED.get(each.spared_by, ""),
        each.spared,
    )


def _calibrated(each: AgentCalibration) -> tuple[str, ...]:
    tenths = (
        NOTHING if one.good_percent is None else f"{one.good_percent:.0f}" for one in each.bins
    )
    gap = f"{each.gap_percent:+.1f}"
    stated, good = percent(each.stated_percent), percent(each.good_percent)
    return (each.agent, stated, good, gap, f"{each.count:,}", *tenths)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.items())


def _in_brackets(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"
