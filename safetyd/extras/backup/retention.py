"""How long snapshots and archives are retained, and how much space deleting them frees.

Audit files and commits are never deleted. Other files are deleted only if their name and content
show that they are safetyd's.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from safetyd.extras.backup.snapshots import Snapshots
from safetyd.extras.backup.weekly_archives import Archives, last_day, week_of

SNAPSHOT_DAYS: Final = 30
ARCHIVE_DAYS: Final = 365


class ArchiveTry(NamedTuple):
    """The result of archiving a week: its size, or an error."""

    week: str
    size: int = 0
    error: str = ""


class RetainedItem(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot or archive. It is deleted on the day `goes`, or `stays` says why it is not."""

    kind: Literal["snapshot", "archive"]
    name: str
    path: str
    size: int  # total bytes
    frees: int  # bytes that no other snapshot shares
    goes: date | None
    stays: str = ""


class Retention:
    """The snapshots and archives of a data directory."""

    def __init__(self, data_dir: Path, archive_dir: str = "") -> None:
        self.archives = Archives(data_dir, archive_dir)
        self.snapshots = Snapshots(data_dir, own=self.archives.directory)

    def planned(self) -> list[RetainedItem]:
        """Return all items, oldest first."""
        days, archived = self.snapshots.days(), self.archives.weeks()
        kept = [self._kept_snapshot(day, _stays(day, days, archived)) for day in days]
        return [*kept, *(self._kept_archive(week) for week in archived)]

    def missing_days(self, due: date, *, since_last: bool = False) -> list[date]:
        """Return the days up to `due` without a snapshot, since the first or the last snapshot."""
        days = self.snapshots.days()
        if not days:
            return []
        first = max(days[-1 if since_last else 0], due - timedelta(days=SNAPSHOT_DAYS - 1))
        wanted = (first + timedelta(days=number) for number in range((due - first).days + 1))
        return [day for day in wanted if day not in days]

    def archive_weeks(self, today: date, rest: Callable[[], None]) -> Iterator[ArchiveTry]:
        """Archive each finished week that has no archive; yield the results."""
        over = _newest_of_weeks(self.snapshots.days())
        over.pop(week_of(today), None)
        for week, day in over.items():
            if self.archives.has(week):
                continue
            try:
                path = self.archives.write(week, self.snapshots.path(day), rest)
                yield ArchiveTry(week, path.stat().st_size)
            except OSError as exc:
                yield ArchiveTry(week, error=str(exc))

    def delete_due(self, today: date) -> list[RetainedItem]:
        """Delete items that are due, and return them."""
        due = [item for item in self.planned() if item.goes and item.goes <= today]
        for item in due:
            if item.kind == "snapshot":
                self.snapshots.drop(date.fromisoformat(item.name))
            else:
                Path(item.path).unlink()
        return due

    def _kept_snapshot(self, day: date, stays: str) -> RetainedItem:
        path = self.snapshots.path(day)
        found = list(_files(path))
        return RetainedItem(
            kind="snapshot",
            name=day.isoformat(),
            path=str(path),
            size=sum(one.st_size for one in found),
            frees=sum(one.st_size for one in found if one.st_nlink == 1),
            goes=None if stays else day + timedelta(days=SNAPSHOT_DAYS),
            stays=stays,
        )

    def _kept_archive(self, week: str) -> RetainedItem:
        path, sunday = self.archives.path(week), last_day(week)
        size = path.stat().st_size
        return RetainedItem(
            kind="archive",
            name=week,
            path=str(path),
            size=size,
            frees=size,
            goes=sunday and sunday + timedelta(days=ARCHIVE_DAYS),
        )


def _stays(day: date, days: Sequence[date], archived: Sequence[str]) -> str:
    if day == days[-1]:
        return "it is the newest"
    week = week_of(day)
    if week not in archived and _newest_of_weeks(days)[week] == day and week != week_of(days[-1]):
        return f"{week} is not archived yet"
    return ""


def _newest_of_weeks(days: Sequence[date]) -> dict[str, date]:
    """Return the last day of each week, from days sorted oldest first."""
    return {week_of(day): day for day in days}


def _files(folder: Path) -> Iterator[os.stat_result]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(Path(entry.path))
            else:
                yield entry.stat(follow_symlinks=False)
