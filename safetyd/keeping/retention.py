"""How long snapshots and archives are kept, which go when, and how much room that makes.

Audit files and commits are kept for ever. Nothing is deleted that is not known to be safetyd's by
its name and by what is in it.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from safetyd.keeping.snapshot_days import last_day, week_of
from safetyd.keeping.snapshots import Snapshots
from safetyd.keeping.weekly_archives import Archives

SNAPSHOT_DAYS: Final = 30
ARCHIVE_DAYS: Final = 365


class ArchiveTry(NamedTuple):
    """What came of archiving a week: so many bytes, or why there are none."""

    week: str
    size: int = 0
    error: str = ""


class KeptItem(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot or an archive. It goes on the day `goes`; without one, `stays` says why."""

    kind: Literal["snapshot", "archive"]
    name: str
    path: str
    size: int  # bytes that it holds
    frees: int  # and those that no other snapshot has
    goes: date | None
    stays: str = ""


def planned(snapshots: Snapshots, archives: Archives) -> list[KeptItem]:
    """Return everything that goes some day, the oldest first."""
    days, archived = snapshots.days(), set(archives.weeks())
    kept = [_kept_snapshot(snapshots, day, _stays(day, days, archived)) for day in days]
    return [*kept, *(_kept_archive(archives, week) for week in sorted(archived))]


def missing_days(days: Sequence[date], due: date) -> list[date]:
    """Return the days since the first snapshot, up to the last that is due, that have none."""
    if not days:
        return []
    first = max(days[0], due - timedelta(days=SNAPSHOT_DAYS - 1))
    wanted = (first + timedelta(days=number) for number in range((due - first).days + 1))
    return [day for day in wanted if day not in set(days)]


def missed_since(days: Sequence[date], due: date) -> list[date]:
    """Return the days after the last snapshot, up to the last that is due."""
    return [day for day in missing_days(days, due) if day > days[-1]]


def archive_weeks(
    snapshots: Snapshots, archives: Archives, today: date, rest: Callable[[], None]
) -> Iterator[ArchiveTry]:
    """Write an archive of each week that is over and has none; yield what came of each."""
    over = _newest_of_weeks(snapshots.days())
    over.pop(week_of(today), None)
    try:
        known = set(archives.weeks())
    except OSError as exc:
        yield from (ArchiveTry(week, error=str(exc)) for week in over)
        return
    for week in sorted(over.keys() - known):
        try:
            path = archives.write(week, snapshots.path(over[week]), rest)
            yield ArchiveTry(week, path.stat().st_size)
        except OSError as exc:
            yield ArchiveTry(week, error=str(exc))


def let_go(snapshots: Snapshots, archives: Archives, today: date) -> list[KeptItem]:
    """Delete what is due; return what is gone."""
    due = [item for item in planned(snapshots, archives) if item.goes and item.goes <= today]
    if not due:
        return []
    for item in due:
        if item.kind == "snapshot":
            snapshots.drop(date.fromisoformat(item.name))
        else:
            archives.drop(item.name)
    return due


def _stays(day: date, days: Sequence[date], archived: set[str]) -> str:
    if day == days[-1]:
        return "it is the newest"
    week = week_of(day)
    if week not in archived and _newest_of_weeks(days)[week] == day and week != week_of(days[-1]):
        return f"{week} is not archived yet"
    return ""


def _newest_of_weeks(days: Sequence[date]) -> dict[str, date]:
    return {week_of(day): day for day in sorted(days)}


def _kept_snapshot(snapshots: Snapshots, day: date, stays: str) -> KeptItem:
    path = snapshots.path(day)
    found = list(_files(path))
    return KeptItem(
        kind="snapshot",
        name=day.isoformat(),
        path=str(path),
        size=sum(one.st_size for one in found),
        frees=sum(one.st_size for one in found if one.st_nlink == 1),
        goes=None if stays else day + timedelta(days=SNAPSHOT_DAYS),
        stays=stays,
    )


def _kept_archive(archives: Archives, week: str) -> KeptItem:
    path = archives.path(week)
    size = path.stat().st_size
    sunday = last_day(week)
    return KeptItem(
        kind="archive",
        name=week,
        path=str(path),
        size=size,
        frees=size,
        goes=sunday and sunday + timedelta(days=ARCHIVE_DAYS),
    )


def _files(folder: Path) -> Iterator[os.stat_result]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(Path(entry.path))
            else:
                yield entry.stat(follow_symlinks=False)
