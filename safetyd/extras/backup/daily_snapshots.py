"""Takes a daily snapshot, makes up for missed ones, and deletes old ones.

The work is done in another thread, with pauses, so that it delays no decision.
"""

import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, date, datetime, timedelta
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
from safetyd.core.reporting.kept_days import KeptDays
from safetyd.extras.backup.folder_copy import NoRoom
from safetyd.extras.backup.history_config import HistoryConfig, today
from safetyd.extras.backup.retention import ArchiveTry, Retention
from safetyd.extras.backup.snapshots import SnapshotFacts, StateFolder, Wanted
from safetyd.extras.backup.tar_zst import CHUNK_BYTES
from safetyd.host import Spare
from safetyd.journal.audit_reading import Rests

LOOK_S: Final = 10.0
LATE: Final = timedelta(minutes=5)
AGAIN: Final = timedelta(minutes=10)
GONE: Final = "the snapshot was taken but is missing now; check the others too, in"
NOT_RUN: Final = "safetyd was down at that hour, or snapshots were off"

log = logging.getLogger("safetyd.backup")


class SnapshotSources(NamedTuple):
    """Functions that return the current settings, which a reload may change."""

    config: Callable[[], HistoryConfig]
    zone: Callable[[], str]
    settings: Callable[[], Path | None]  # the configuration file
    folders: Callable[[], Sequence[StateFolder]]
    checkpoint: Callable[[], Awaitable[object]]  # saves a checkpoint for the snapshot
    spare: Callable[[Path], Spare]  # returns how much may be written to a directory
    now: Callable[[], datetime]
    known: Callable[[], KeptDays]  # the days and weeks recorded as stored or missing


class _Ending(Exception):
    """The work stops because the daemon shuts down."""


class DailySnapshots:
    """Checks every few seconds whether a snapshot is due; `put` records the result."""

    def __init__(
        self,
        data_dir: Path,
        sources: SnapshotSources,
        put: Callable[[Callable[[Moment], Event]], None],
    ) -> None:
        self._data_dir = data_dir
        self._of = sources
        self._put = put
        self._done: date | None = None
        self._failed_day: date | None = None
        self._failed_at = datetime.min.replace(tzinfo=UTC)
        self._told_failed: date | None = None
        self._told = date.min  # the last day reported as missing
        self._gone = ""  # the last day whose snapshot disappeared
        self._wanted = True  # True if snapshots were enabled at the last check
        self._ending = threading.Event()

    async def run(self) -> None:
        while True:
            await self.look()
            await anyio.sleep(LOOK_S)

    async def look(self) -> None:
        """Take the snapshot that is due, if any."""
        config, now = self._of.config(), self._of.now()
        if not config.snapshot_at:
            self._wanted = False
            return
        zone = self._of.zone()
        kept = Retention(self._data_dir, config.archive_dir)
        day = config.due_day(now, zone)
        gone = await self._gone_day(kept)
        # Retry a failure only after a while.
        too_soon = day == self._failed_day and abs(now - self._failed_at) < AGAIN
        if too_soon or (day == self._done and not gone):
            return
        late = now - config.hour_of(day, zone) > LATE
        wanted = Wanted(day, now, self._of.folders(), self._of.settings(), late)
        try:
            await self._look_back(kept, day)
            if gone:
                self._gone = gone
                at = date.fromisoformat(gone)
                self._tell_missing(at, at, f"{GONE} {kept.snapshots.directory}")
            facts, tried = await self._work(kept, wanted, today(now, zone))
        except OSError as exc:
            self._failed(day, now, str(exc))
        except anyio.get_cancelled_exc_class():
            self._ending.set()
            raise
        else:
            self._taken(day, facts)
            self._archived(day, now, tried)

    async def _gone_day(self, kept: Retention) -> str:
        """Return the day of the last snapshot if it disappeared and was not reported yet."""
        last = self._of.known().taken
        if not last or last == self._gone:
            return ""
        path = kept.snapshots.path(date.fromisoformat(last))
        return "" if await anyio.to_thread.run_sync(path.exists) else last

    async def _look_back(self, kept: Retention, due: date) -> None:
        """Report each missed day since the last snapshot once."""
        look = partial(kept.missing_days, due - timedelta(days=1), since_last=True)
        missing = await anyio.to_thread.run_sync(look)
        known = self._of.known().missing
        told = max(self._told, date.fromisoformat(known.day) if known else date.min)
        missed = [day for day in missing if day > told]
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

    async def _work(
        self, kept: Retention, wanted: Wanted, day: date
    ) -> tuple[SnapshotFacts | None, Sequence[ArchiveTry]]:
        run_sync = anyio.to_thread.run_sync
        if wanted.day not in await run_sync(kept.snapshots.days):
            await self._of.checkpoint()
        work = _Work(kept, self._of.spare, Rests(), self._ending)
        return await run_sync(work.do, wanted, day, abandon_on_cancel=True)

    def _failed(self, day: date, now: datetime, error: str) -> None:
        log.error("cannot take the snapshot of %s, trying again later: %s", day, error)
        self._failed_day, self._failed_at = day, now
        known = self._of.known().missing
        before = known is not None and (known.day, known.error) == (day.isoformat(), error)
        if self._told_failed != day and not before:
            self._tell_missing(day, day, error)
        self._told_failed = day

    def _archived(self, day: date, now: datetime, tried: Sequence[ArchiveTry]) -> None:
        """Report the results of archives; failed weeks are retried."""
        failed = [each for each in tried if each.error]
        for each in tried:
            if each.error:
                what = (each.week, each.error)
                log.error("cannot archive %s, so its last snapshot is retained: %s", *what)
            else:
                self._put(partial(_week_archived, each))
        self._done, self._failed_day = (None, day) if failed else (day, None)
        self._failed_at = now
        # One report covers all: archives usually fail for the same reason, such as a missing disk.
        if failed and failed[-1].week != self._of.known().unarchived:
            self._put(partial(_archive_failed, failed[-1]))

    def _taken(self, day: date, facts: SnapshotFacts | None) -> None:
        if facts is None:
            return
        self._gone = ""
        log.info("snapshot of %s: %d files, %d of them linked", day, facts.files, facts.linked)
        for note in facts.notes:
            log.info("problem in the snapshot of %s: %r", day, note)
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
    """The work that is done in another thread."""

    kept: Retention
    spare: Callable[[Path], Spare]
    rests: Rests
    ending: threading.Event

    def do(self, wanted: Wanted, day: date) -> tuple[SnapshotFacts | None, Sequence[ArchiveTry]]:
        """Take a missing snapshot, archive finished weeks, and delete old items.

        The snapshot counts even if archives fail.
        """
        kept, facts = self.kept, None
        if wanted.day not in kept.snapshots.days():
            facts = kept.snapshots.take(wanted, spare=self._spare_bytes, rest=self._rest)
        with kept.snapshots.alone(wait=True):
            # Archives first: snapshots that are not archived are retained.
            tried = tuple(kept.archive_weeks(day, self._rest_with_room))
            try:
                for item in kept.delete_due(day):
                    log.info("deleted the old %s %s", item.kind, item.name)
            except OSError as exc:
                log.error("cannot delete old snapshots and archives: %s", exc)  # noqa: TRY400 - the cause is in the text
        return facts, tried

    def _spare_bytes(self) -> float:
        """Return how many bytes a snapshot may write; negative if no more files can be created."""
        spare = self.spare(self.kept.snapshots.directory)
        return spare.bytes if spare.files > 0 else -1.0

    def _rest_with_room(self) -> None:
        """Pause between two chunks of an archive; raise before the disk is nearly full."""
        directory = self.kept.archives.directory
        spare = self.spare(directory)
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
