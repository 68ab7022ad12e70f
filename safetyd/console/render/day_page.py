"""A rehearsed day on a terminal: its hours, its timeline and its table."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final
from zoneinfo import ZoneInfo

from safetyd.console.render.layout import aligned
from safetyd.console.terminal_text import plain, several
from safetyd.core.text.time_words import exact
from safetyd.rehearsal.day_measures import Measure
from safetyd.rehearsal.day_record import DayRecord
from safetyd.rehearsal.day_timeline import TimelineRow

DETAIL_CHARS: Final = 70
WIDEST: Final = 160  # lines of the timeline that are not printed to a terminal
WHO_CHARS: Final = 14
TOGETHER: Final = timedelta(minutes=10)  # similar rows within this time become one line
AT_ONCE: Final = timedelta(seconds=10)  # the same for a message to several people and channels
ENOUGH: Final = 20  # characters of an action that leave room for remarks in the same line
_HOUR: Final = timedelta(hours=1)

# The signs of the timeline.
_SIGNS: Final[Mapping[str, str]] = {
    "request": "?",
    "message": ">",
    "approved": "+",
    "denied": "-",
    "expired": "x",
    "cancelled": "x",
    "superseded": "x",
    "incident": "!",
}
LEGEND: Final = "? asks for approval  > message  + approves  - denies  x ended  ! incident"


def story_list(titles: Mapping[str, str]) -> str:
    """Return the stories that come with safetyd."""
    return aligned([["story", "title"], *([name, title] for name, title in titles.items())])


def day_page(
    record: DayRecord,
    cast: Mapping[str, str],
    table: Sequence[Measure],
    rows: Sequence[TimelineRow],
    width: int,
) -> str:
    """Return the page.

    `cast` says which recipient behaves like which person of the story, if the story has other
    people. `width` is that of the terminal.
    """
    story, missed = record.story, sum(measure.missed for measure in table)
    zone, wide = ZoneInfo(story.timezone), min(width, WIDEST)
    begins = f"{plain(story.title)}: {several(record.proposals, 'proposal')} in {story.lasts}"
    likes = [f"{plain(name)} behaves like {plain(part)}" for name, part in cast.items()]
    parts = (
        "\n".join((begins, *likes)),
        *((_hours(rows, zone, wide), _timeline(rows, zone, wide)) if rows else ()),
        aligned([["measure", "value", "goal", ""], *_lines(table)]),
        f"{several(missed, 'goal')} missed." if missed else "No goal is missed.",
    )
    return "\n\n".join(parts)


def _hours(rows: Sequence[TimelineRow], zone: ZoneInfo, width: int) -> str:
    """Return how many requests and messages there were in each hour, a line for each channel."""
    counts: dict[str, Counter[datetime]] = {"requests": Counter()}
    for row in rows:
        if row.kind == "request":
            counts["requests"][_hour(row, zone)] += 1
        elif row.kind == "message":
            name = plain(f"{row.who}, {row.channel}")
            counts.setdefault(name, Counter())[_hour(row, zone)] += 1
    first, last = _hour(rows[0], zone), _hour(rows[-1], zone)
    hours = [first + n * _HOUR for n in range(int((last - first) / _HOUR) + 1)]
    label = max(map(len, counts))
    cell = max(2, *(len(str(most)) for found in counts.values() for most in found.values()))
    each = max(1, (width - label) // (cell + 1))
    lines = []
    for start in range(0, len(hours), each):
        shown = hours[start : start + each]
        heading = " ".join(f"{hour.astimezone(zone):%H}".rjust(cell) for hour in shown)
        lines.append(f"{'HOUR':<{label}} {heading}")
        for name, found in counts.items():
            cells = " ".join(str(found[hour] or "·").rjust(cell) for hour in shown)
            lines.append(f"{name:<{label}} {cells}")
    return "\n".join(line.rstrip() for line in lines)


def _hour(row: TimelineRow, zone: ZoneInfo) -> datetime:
    local = row.at.astimezone(zone)
    past = timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
    return row.at - past


def _timeline(rows: Sequence[TimelineRow], zone: ZoneInfo, width: int) -> str:
    who = min(WHO_CHARS, max(len(row.who) for row in rows))
    lines = [LEGEND]
    for hour, found in groupby(rows, key=lambda row: _hour(row, zone)):
        lines += ["", f"{hour.astimezone(zone):%a %-d %b, %H:00}"]
        for group in _similar(found):
            lines += _line(group, zone, who, width)
    return "\n".join(lines)


def _similar(rows: Iterable[TimelineRow]) -> Iterator[list[TimelineRow]]:
    """Yield rows that follow each other and say almost the same as one group."""
    group: list[TimelineRow] = []
    for row in rows:
        if group and not _together(group[0], row):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _together(first: TimelineRow, row: TimelineRow) -> bool:
    """Return True if rows are the same message to others, or answers or requests of the same."""
    if row.kind != first.kind or row.kind == "incident" or row.urgent != first.urgent:
        return False
    if row.kind == "message":
        return row.about == first.about and row.at - first.at < AT_ONCE
    return row.who == first.who and row.at - first.at < TOGETHER


def _line(group: Sequence[TimelineRow], zone: ZoneInfo, who: int, width: int) -> Iterator[str]:
    row = group[0]
    name = _cut(plain(", ".join(dict.fromkeys(each.who for each in group))), who)
    begins = f"{row.at.astimezone(zone):%H:%M:%S}  {_SIGNS[row.kind]} {name:<{who}}  "
    ends = "  ".join(_remarks(group, zone))
    said, room = plain(_what(group), WIDEST), width - len(begins)
    if not ends:
        yield f"{begins}{_cut(said, room)}"
    elif (left := room - len(ends) - 2) >= min(ENOUGH, len(said)):
        yield f"{begins}{_cut(said, left)}  {ends}"
    else:
        yield f"{begins}{_cut(said, room)}"
        yield f"{' ' * len(begins)}{_cut(ends, room)}"


def _what(group: Sequence[TimelineRow]) -> str:
    row = group[0]
    if row.kind == "message":
        return f"{', '.join(dict.fromkeys(each.channel for each in group))}: {row.what}"
    return f"{'URGENT ' * (row.urgent and row.kind == 'request')}{row.what}"


def _remarks(group: Sequence[TimelineRow], zone: ZoneInfo) -> Iterator[str]:
    row = group[0]
    if len(group) > 1 and row.kind != "message":
        yield f"(+{len(group) - 1})"
    if row.kind == "request" and row.until:
        yield f"until {row.until.astimezone(zone):%a %H:%M}"
    if row.counted:
        yield f"(+{row.counted} only counted)"
    if row.waited_s:
        yield f"[{exact(row.waited_s)}: {row.why}]"
    if row.kind in {"approved", "denied"} and not row.channel.startswith("link"):
        yield f"[{row.channel}]"


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: max(1, room - 1)]}…"


def _lines(table: Iterable[Measure]) -> Iterator[list[str]]:
    for measure in table:
        goal = "" if measure.goal is None else f"≤ {_value(measure.goal, measure.unit)}"
        value = "-" if measure.value is None else _value(measure.value, measure.unit)
        mark = "MISSED" if measure.missed else ""
        detail = plain(measure.detail, DETAIL_CHARS) if measure.detail else ""
        yield [plain(measure.name), value, goal, f"{mark}  {detail}".strip()]


def _value(value: float, unit: str) -> str:
    return exact(value) if unit == "s" else f"{value:g}{' %' if unit else ''}"
