"""A report as Markdown, as it is kept; nothing that agents chose is markup in it."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from safetyd.core.daily_report.day_report import DailyReport
from safetyd.core.text.visible_text import visible

_MARKUP: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


def markdown(report: DailyReport) -> str:
    return "\n".join(_lines(report)) + "\n"


def _lines(report: DailyReport) -> Iterator[str]:
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
    for heading, rows in report.tables:
        yield from ("", f"### {heading}", "")
        yield from _table(rows)


def _questions(report: DailyReport) -> Iterator[str]:
    if not report.questions:
        return
    yield from ("", "### Questions that repeated", "")
    for question in report.questions:
        yield f"- {code(question.what)} {question.outcome}"
        yield from (f"  - {code(line)}" for line in question.spared.splitlines())


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
