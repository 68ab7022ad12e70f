"""Takes a snapshot each day at its hour, makes up for a missed one, and lets old ones go.

It works in another thread, with rests, so that no decision waits for it.
"""

import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import anyio.to_thread

from safetyd.core.events.event import Event, Moment
from safetyd.core.events.history_events import (
    ArchiveFailed,
    SnapshotMissed,
    SnapshotTaken,
    WeekArchived,
)
from safetyd.core.reporting.kept_days import MissingSnapshots
from safetyd.host import Spare
from safetyd.journal.audit_reading import Rests
from safetyd.keeping.folder_copy import NoRoom
from safetyd.keeping.history_config import HistoryConfig
from safetyd.keeping.retention import ArchiveTry, archive_weeks, let_go, missed_since
from safetyd.keeping.snapshot_days import due_day, hour_of, today
from safetyd.keeping.snapshots import SnapshotFacts, Snapshots, StateFolder, Wanted
from safetyd.keeping.tar_zst import CHUNK_BYTES
from safetyd.keeping.weekly_archives import Archives

LOOK_S: Final = 10.0
LATE: Final = timedelta(minutes=5)
AGAIN: Final = timedelta(minutes=10)
GONE: Final = "it was taken, and is not there any more; look for the others too, in"
NOT_RUN: Final = "safetyd did not run at the hour, or took no snapshots then"

log = logging.getLogger("safetyd.keeping")


class KeeperSources(NamedTuple):
    """What the keeper asks each time, since a reload may have changed it."""

    config: Callable[[], HistoryConfig]
    zone: Callable[[], str]
    settings: Callable[[], Path | None]  # the daemon's own file
    folders: Callable[[], Sequence[StateFolder]]
    checkpoint: Callable[[], Awaitable[object]]  # saves all that is known, to be in a snapshot
    spare: Callable[[Path], Spare]  # what may be written to the disk of a directory
    now: Callable[[], datetime]
    missing: Callable[[], MissingSnapshots | None]  # of which people were told
    taken: Callable[[], str]  # the day of the last snapshot, as it is written down
    unarchived: Callable[[], str]  # the same of a week


class DoneWork(NamedTuple):
    """What was taken, None if it was there already, and what came of archives."""

    facts: SnapshotFacts | None
    archives: Sequence[ArchiveTry]


class _Ending(Exception):
    """The daemon ends, and so does the work."""


class SnapshotKeeper:
    """Looks every few seconds whether a day has no snapshot yet; `put` gets what came of it."""

    def __init__(
        self,
        data_dir: Path,
        sources: KeeperSources,
        put: Callable[[Callable[[Moment], Event]], None],
    ) -> None:
        self._data_dir = data_dir
        self._of = sources
        self._put = put
        self._done: date | None = None
        self._tried: date | None = None
        self._failed_day: date | None = None
        self._told = date.min  # the last day that people know to be missing
        self._gone = ""  # the last day whose snapshot was there and is gone
        self._wanted = True  # since the last look
        self._failed_at: datetime | None = None
        self._ending = threading.Event()

    async def run(self) -> None:
        while True:
            await self.look()
            await anyio.sleep(LOOK_S)

    async def look(self) -> None:
        """Take the snapshot that is due, if there is one."""
        config, now = self._of.config(), self._of.now()
        if not config.snapshot_at:
            self._wanted = False
            return
        zone = self._of.zone()
        day = due_day(now, config.snapshot_at, zone)
        gone = await self._gone_day()
        if (day == self._done and not gone) or self._is_too_soon(day, now):
            return
        self._tried = day
        late = now - hour_of(day, config.snapshot_at, zone) > LATE
        wanted = Wanted(day, now, self._of.folders(), self._of.settings(), late)
        try:
            await self._look_back(wanted)
            self._tell_gone(gone)
            done = await self._work(wanted, config, zone)
        except OSError as exc:
            self._failed(day, now, str(exc))
        except anyio.get_cancelled_exc_class():
            self._ending.set()
            raise
        else:
            self._taken(day, done.facts)
            self._archived(day, now, done.archives)

    async def _gone_day(self) -> str:
        """Return the day of the last snapshot if it is gone and nobody was told of it."""
        last = self._of.taken()
        if not last or last == self._gone:
            return ""
        path = Snapshots(self._data_dir).path(date.fromisoformat(last))
        return "" if await anyio.to_thread.run_sync(path.exists) else last

    def _tell_gone(self, gone: str) -> None:
        """Tell once that the last snapshot is gone; if it is that of the day, it is taken again."""
        if gone:
            self._gone, day = gone, date.fromisoformat(gone)
            self._tell_missing(day, day, f"{GONE} {Snapshots(self._data_dir).directory}")

    async def _look_back(self, wanted: Wanted) -> None:
        """Tell once of the days since the last snapshot that nobody can make up for any more."""
        taken = await anyio.to_thread.run_sync(Snapshots(self._data_dir).days)
        last = wanted.day - timedelta(days=1)
        known = self._of.missing()
        told = max(self._told, date.fromisoformat(known.day) if known else date.min)
        missed = [day for day in missed_since(taken, last) if day > told]
        if missed and self._wanted:
            self._tell_missing(missed[0], missed[-1], NOT_RUN)
        self._wanted = True

    def _tell_missing(self, since: date, day: date, error: str) -> None:
        self._told = day
        self._put(
            lambda moment: SnapshotMissed(
                at=moment.at,
                t=moment.t,
                day=day.isoformat(),
                error=error,
                since="" if since == day else since.isoformat(),
            )
        )

    async def _work(self, wanted: Wanted, config: HistoryConfig, zone: str) -> DoneWork:
        work = _Work(self._data_dir, config, self._of, Rests(), self._ending)
        run_sync = anyio.to_thread.run_sync
        if not await run_sync(work.is_taken, wanted.day):
            await self._of.checkpoint()
        return await run_sync(work.do, wanted, zone, abandon_on_cancel=True)

    def _is_too_soon(self, day: date, now: datetime) -> bool:
        """Say whether a try for the day failed so shortly before that another one can wait."""
        if self._failed_at is None or self._tried != day:
            return False
        return abs(now - self._failed_at) < AGAIN

    def _failed(self, day: date, now: datetime, error: str) -> None:
        log.error("no snapshot of %s could be taken, and it is tried again: %s", day, error)
        self._failed_at = now
        known = self._of.missing()
        before = known is not None and (known.day, known.error) == (day.isoformat(), error)
        if self._failed_day != day and not before:
            self._tell_missing(day, day, error)
        self._failed_day = day

    def _archived(self, day: date, now: datetime, tried: Sequence[ArchiveTry]) -> None:
        """Tell what came of archives; a week that has none is tried again."""
        for each in tried:
            if not each.error:
                self._put(partial(_week_archived, each))
        failed = [each for each in tried if each.error]
        self._done, self._failed_at = (None, now) if failed else (day, None)
        for each in failed:
            log.error("%s is not archived, and its last snapshot stays: %s", each.week, each.error)
        # One is told for all: they fail for one reason, such as a disk that is not there.
        if failed and failed[-1].week != self._of.unarchived():
            self._put(partial(_archive_failed, failed[-1]))

    def _taken(self, day: date, facts: SnapshotFacts | None) -> None:
        if facts is None:
            return
        self._gone = ""
        log.info("snapshot of %s: %d files, %d of them linked", day, facts.files, facts.linked)
        for note in facts.notes:
            log.info("in the snapshot of %s: %r", day, note)
        self._put(
            lambda moment: SnapshotTaken(
                at=moment.at,
                t=moment.t,
                day=day.isoformat(),
                files=facts.files,
                size=facts.size,
                late=facts.late,
            )
        )


class _Work(NamedTuple):
    """What is done in the thread."""

    data_dir: Path
    config: HistoryConfig
    sources: KeeperSources
    rests: Rests
    ending: threading.Event

    def is_taken(self, day: date) -> bool:
        return day in Snapshots(self.data_dir).days()

    def do(self, wanted: Wanted, zone: str) -> DoneWork:
        """Take a snapshot, archive weeks that are over, and let old ones go.

        Whatever becomes of the archives, the snapshot counts.
        """
        archives = Archives(self.data_dir, self.config.archive_dir)
        snapshots = Snapshots(self.data_dir, own=(archives.directory,))
        facts = None
        if wanted.day not in snapshots.days():
            facts = snapshots.take(wanted, spare=self._spare_bytes, rest=self._rest)
        with snapshots.alone(wait=True):
            # Archives first: what is in none stays.
            day = today(wanted.at, zone)
            rest = partial(self._rest_with_room, archives.directory)
            tried = tuple(archive_weeks(snapshots, archives, day, rest))
            self._let_go(snapshots, archives, day)
        return DoneWork(facts, tried)

    def _let_go(self, snapshots: Snapshots, archives: Archives, day: date) -> None:
        try:
            for item in let_go(snapshots, archives, day):
                log.info("the %s %s was kept long enough and is deleted", item.kind, item.name)
        except OSError as exc:
            log.error("what was kept long enough is not deleted: %s", exc)  # noqa: TRY400 - the cause is in the text

    def _spare_bytes(self) -> float:
        """Return how much a snapshot may write; less than nothing if it may make no more files."""
        spare = self.sources.spare(self.data_dir)
        return spare.bytes if spare.files > 0 else -1.0

    def _rest_with_room(self, directory: Path) -> None:
        """Rest between two chunks of an archive, or end it before the disk is nearly full."""
        spare = self.sources.spare(directory)
        if spare.bytes < CHUNK_BYTES or spare.files <= 0:
            raise NoRoom(f"the disk of {directory} is nearly full")
        self._rest()

    def _rest(self) -> None:
        if self.ending.is_set():
            raise _Ending
        self.rests.rest()


def _week_archived(tried: ArchiveTry, moment: Moment) -> WeekArchived:
    return WeekArchived(at=moment.at, t=moment.t, week=tried.week, size=tried.size)


def _archive_failed(tried: ArchiveTry, moment: Moment) -> ArchiveFailed:
    return ArchiveFailed(at=moment.at, t=moment.t, week=tried.week, error=tried.error)
