"""A report as Markdown, as it is kept; nothing that agents chose is markup in it."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from safetyd.core.daily_report.report_parts import DailyReport
from safetyd.core.text.visible_text import visible
from safetyd.reports.report_sections import (
    calibration_rows,
    day_rows,
    health,
    questions,
    sections,
    title,
)

_MARKUP: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


def markdown(report: DailyReport) -> str:
    return "\n".join(_lines(report)) + "\n"


def _lines(report: DailyReport) -> Iterator[str]:
    yield f"## {escaped(title(report))}"
    yield ""
    yield f"### Overall Health: {report.colour}"
    yield ""
    for found in report.found:
        yield f"- {found.colour} {escaped(found.says)}. {found.todo}"
    if said := health(report):
        yield f"- {said}"
    for section in sections(report):
        yield ""
        yield f"### {section.title}"
        yield ""
        yield from (f"- {line.name}: {escaped(line.value)}" for line in section.lines)
    yield from _questions(report)
    if rows := calibration_rows(report):
        yield from ("", "### Calibration", "")
        yield (
            "How much of what was done or answered came true, in percent, by the confidence that "
            "the agent had stated."
        )
        yield ""
        yield from _table(rows)
    if rows := day_rows(report):
        yield from ("", "### Days", "")
        yield from _table(rows)


def _questions(report: DailyReport) -> Iterator[str]:
    if not report.questions:
        return
    yield from ("", "### Questions that repeated", "")
    for question in questions(report):
        yield f"- {code(question.what)} {question.answers}{_spared(question.spared_by)}"
        yield from (f"  - {code(line)}" for line in question.spared.splitlines())


def _spared(by: str) -> str:
    return f"; {by}:" if by else ""


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        yield f"| {' | '.join(escaped(cell) for cell in row)} |"
        if number == 0:
            yield f"|{'|'.join(' --- ' for _ in row)}|"


def escaped(text: str) -> str:
    """Return text that is no markup, on one line."""
    return _MARKUP.sub(r"\\\1", visible(text))


def code(text: str) -> str:
    """Return text as code, whatever stands in it."""
    return f"`` {visible(text).replace('`', chr(39))} ``"
