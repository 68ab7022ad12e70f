"""A rehearsed day on a terminal: its timeline and its table."""

from collections.abc import Iterable, Iterator, Sequence
from zoneinfo import ZoneInfo

from safetyd.console.render.layout import aligned
from safetyd.console.terminal_text import plain, several
from safetyd.core.text.time_words import exact
from safetyd.rehearsal.day_measures import Measure
from safetyd.rehearsal.day_timeline import TimelineRow
from safetyd.rehearsal.story_file import Story

DETAIL_CHARS = 70
WHAT_CHARS = 160


def day_page(
    story: Story, proposals: int, table: Sequence[Measure], rows: Sequence[TimelineRow]
) -> str:
    missed = sum(measure.missed for measure in table)
    parts = (
        f"{plain(story.title)}: {several(proposals, 'proposal')} in {story.lasts}",
        *([_timeline(rows, ZoneInfo(story.timezone))] if rows else ()),
        aligned([["measure", "value", "goal", ""], *_lines(table)]),
        f"{several(missed, 'goal')} missed." if missed else "No goal is missed.",
    )
    return "\n\n".join(parts)


def _timeline(rows: Iterable[TimelineRow], zone: ZoneInfo) -> str:
    lines = [
        [f"{row.at.astimezone(zone):%a %H:%M:%S}", plain(row.who), plain(row.what, WHAT_CHARS)]
        for row in rows
    ]
    return aligned([["time", "who", "what"], *lines])


def _lines(table: Iterable[Measure]) -> Iterator[list[str]]:
    for measure in table:
        goal = "" if measure.goal is None else f"≤ {_value(measure.goal, measure.unit)}"
        value = "-" if measure.value is None else _value(measure.value, measure.unit)
        mark = "MISSED" if measure.missed else ""
        detail = plain(measure.detail, DETAIL_CHARS) if measure.detail else ""
        yield [plain(measure.name), value, goal, f"{mark}  {detail}".strip()]


def _value(value: float, unit: str) -> str:
    return exact(value) if unit == "s" else f"{value:g}{' %' if unit else ''}"
