import logging
import sys
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from safetyd.core.events.event import Event, Moment
from safetyd.core.events.history_events import (
    ArchiveFailed,
    SnapshotMissed,
    SnapshotTaken,
    WeekArchived,
)
from safetyd.core.reporting.kept_days import KeptDays
from safetyd.extras.backup.daily_snapshots import AGAIN, GONE, DailySnapshots, SnapshotSources
from safetyd.extras.backup.history_config import HistoryConfig
from safetyd.extras.backup.retention import SNAPSHOT_DAYS, Retention
from safetyd.extras.backup.snapshots import StateFolder
from safetyd.host import Spare

FIRST = datetime(2026, 3, 2, 3, 30, tzinfo=UTC)  # a Monday


class DailyRig:
    """Daily snapshots whose clock, disk and settings a test moves."""

    def __init__(self, directory: Path) -> None:
        self.data_dir = directory / "data"
        self.project = directory / "project"
        self.data_dir.mkdir()
        self.project.mkdir()
        (self.project / "notes").write_text("first")
        self.config = HistoryConfig(snapshot_at="03:30")
        self.now = FIRST
        self.room = 2.0**40
        self.archive_room = 2.0**40
        self.checkpoints = 0
        self.events: list[Event] = []
        self.working = threading.Event()
        self.go = threading.Event()
        self.go.set()
        self.snapshots = Retention(self.data_dir).snapshots
        self.known = KeptDays()
        self.restart()

    def restart(self) -> None:
        self.daily = DailySnapshots(
            self.data_dir,
            SnapshotSources(
                config=lambda: self.config,
                zone=lambda: "UTC",
                settings=lambda: None,
                folders=lambda: (StateFolder("web", self.project),),
                checkpoint=self._checkpoint,
                spare=self._spare,
                now=lambda: self.now,
                known=lambda: self.known,
            ),
            self._put,
        )

    def _put(self, make: Callable[[Moment], Event]) -> None:
        event = make(Moment(self.now, 0.0))
        self.events.append(event)
        self.known.observe(event)

    async def _checkpoint(self) -> None:
        self.checkpoints += 1

    def _spare(self, directory: Path) -> Spare:
        self.working.set()
        self.go.wait()
        room = self.archive_room if directory.name == "archives" else self.room
        return Spare(room, room)

    async def look_on(self, days: Iterable[int]) -> None:
        """Look once on each of these days, counted from the first."""
        for number in days:
            self.now = FIRST + timedelta(days=number)
            await self.daily.look()

    @property
    def missed(self) -> list[str]:
        """The days of which it was said that they are missing."""
        return [event.days for event in self.events if isinstance(event, SnapshotMissed)]

    @property
    def told(self) -> list[tuple[str, str, bool]]:
        """What was said of which day, and whether it was late."""
        return [
            (type(event).__name__, event.day, getattr(event, "late", False))
            for event in self.events
            if isinstance(event, SnapshotTaken | SnapshotMissed)
        ]


@pytest.fixture
def rig(tmp_path: Path) -> DailyRig:
    return DailyRig(tmp_path)


@pytest.mark.req("S2.21")
@pytest.mark.parametrize("restarted", [True, False])  # or slept
@pytest.mark.parametrize(
    ("away", "missed", "taken"),
    [
        (timedelta(0), "", None),
        (timedelta(hours=23, minutes=59), "", None),
        (timedelta(days=1), "", ("2026-03-03", False)),
        (timedelta(days=1, hours=5), "", ("2026-03-03", True)),
        (timedelta(days=2, hours=5), "2026-03-03", ("2026-03-04", True)),
        (timedelta(days=3, hours=-1), "2026-03-03", ("2026-03-04", True)),
        (timedelta(days=3, hours=5), "2026-03-03 to 2026-03-04", ("2026-03-05", True)),
        # Of a year no more than a month is told.
        (timedelta(days=365), "2027-01-31 to 2027-03-01", ("2027-03-02", False)),
    ],
)
async def test_a_day_is_taken_once_and_days_that_nobody_can_make_up_for_are_told_once(
    rig: DailyRig,
    away: timedelta,
    missed: str,
    taken: tuple[str, bool] | None,
    *,
    restarted: bool,
):
    await rig.daily.look()
    rig.now += away
    for _ in range(2):
        if restarted:
            rig.restart()
        await rig.daily.look()

    first = ("SnapshotTaken", "2026-03-02", False)
    assert [row for row in rig.told if row[0] == "SnapshotTaken"] == [
        *(first, *([("SnapshotTaken", *taken)] if taken else []))
    ]
    assert rig.missed == ([missed] if missed else [])
    assert rig.known.missing is None
    assert rig.checkpoints == (2 if taken else 1)


@pytest.mark.req("S2.21")
async def test_no_snapshot_is_taken_where_none_is_wanted(rig: DailyRig):
    rig.config = HistoryConfig()

    await rig.daily.look()

    assert rig.events == []
    assert list(rig.data_dir.iterdir()) == []


async def test_days_that_are_missing_are_told_once_though_no_start_can_make_up_for_them(
    rig: DailyRig,
):
    await rig.daily.look()
    (rig.project / "notes").write_text("second")
    rig.now += timedelta(days=2)
    rig.room = 0.0
    for _ in range(3):
        rig.restart()
        await rig.daily.look()

    assert rig.missed == ["2026-03-03", "2026-03-04"]  # nothing ran; the disk is full
    assert rig.known.missing is not None
    assert (rig.known.missing.since, rig.known.missing.day) == ("2026-03-03", "2026-03-04")


async def test_days_on_which_no_snapshot_was_wanted_are_not_missing(rig: DailyRig):
    await rig.daily.look()
    wanted, rig.config = rig.config, HistoryConfig()
    rig.now += timedelta(days=1)
    await rig.daily.look()
    rig.now += timedelta(days=3)
    rig.config = wanted
    await rig.daily.look()

    assert rig.missed == []
    assert rig.told[-1][1] == "2026-03-06"
    rig.now += timedelta(days=2)
    await rig.daily.look()
    assert rig.missed == ["2026-03-07"]


async def test_the_first_snapshot_of_all_misses_nothing(rig: DailyRig):
    rig.now += timedelta(hours=8)
    await rig.daily.look()

    assert rig.told == [("SnapshotTaken", "2026-03-02", True)]


@pytest.mark.req("S2.21")
async def test_a_snapshot_that_fails_is_missing_until_it_is_made_up_for(
    rig: DailyRig, caplog: pytest.LogCaptureFixture
):
    rig.room = 0.0
    await rig.daily.look()
    rig.now += AGAIN
    await rig.daily.look()
    assert rig.told == [("SnapshotMissed", "2026-03-02", False)]
    (missed,) = rig.events
    assert isinstance(missed, SnapshotMissed)
    assert "the disk would be full" in missed.error
    assert "trying again" in caplog.text

    rig.room = 2.0**40
    await rig.daily.look()
    assert len(rig.told) == 1  # a failure is given a while
    rig.now += AGAIN
    await rig.daily.look()

    assert rig.told[1:] == [("SnapshotTaken", "2026-03-02", True)]


@pytest.mark.req("S2.23")
async def test_old_snapshots_are_archived_and_let_go(rig: DailyRig):
    await rig.look_on((0, 6, 8, SNAPSHOT_DAYS))

    assert rig.snapshots.days() == [date(2026, 3, 8), date(2026, 3, 10), date(2026, 4, 1)]
    assert sorted(path.name for path in (rig.data_dir / "archives").iterdir()) == [
        f"2026-W{week}.tar.zst" for week in (10, 11)
    ]


async def test_no_archive_is_written_to_a_disk_that_is_nearly_full(rig: DailyRig):
    rig.archive_room = 1000.0
    await rig.look_on((0, 8))

    assert list((rig.data_dir / "archives").iterdir()) == []
    assert rig.known.unarchived == "2026-W10"
    rig.archive_room = 2.0**40
    rig.now += AGAIN
    await rig.daily.look()
    assert rig.known.unarchived == ""


async def test_without_the_package_for_archives_the_keeper_goes_on_and_says_what_to_install(
    rig: DailyRig, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as hidden:
        hidden.setitem(sys.modules, "zstandard", None)
        await rig.look_on((0, 8))

    (failed,) = (event for event in rig.events if isinstance(event, ArchiveFailed))
    assert failed.error == "zstandard is not installed: run `pip install 'safetyd[daemon]'`"
    assert list((rig.data_dir / "archives").iterdir()) == []
    rig.now += AGAIN
    await rig.daily.look()
    assert rig.known.unarchived == ""


async def test_a_disk_for_archives_that_is_not_there_costs_no_snapshot_and_is_told_each_week(
    rig: DailyRig, caplog: pytest.LogCaptureFixture
):
    rig.config = HistoryConfig(snapshot_at="03:30", archive_dir=str(rig.data_dir / "disk"))
    await rig.look_on((*range(15), 60))

    assert sum(kind == "SnapshotTaken" for kind, _, _ in rig.told) == 16
    assert "cannot archive 2026-W10" in caplog.text
    told = [event.week for event in rig.events if isinstance(event, ArchiveFailed)]
    assert told == ["2026-W10", "2026-W11", "2026-W12"]
    last_of_weeks = [date(2026, 3, 8), date(2026, 3, 15), date(2026, 3, 16)]
    assert rig.snapshots.days() == [*last_of_weeks, date(2026, 5, 1)]


@pytest.mark.req("S2.23")
async def test_a_week_that_is_not_archived_is_told_once_and_tried_again(rig: DailyRig):
    disk = rig.data_dir / "disk"
    rig.config = HistoryConfig(snapshot_at="03:30", archive_dir=str(disk))
    await rig.look_on((0, 7))
    rig.restart()
    await rig.daily.look()
    failed = [event for event in rig.events if isinstance(event, ArchiveFailed)]
    assert [event.week for event in failed] == ["2026-W10"]
    assert str(disk) in failed[0].error

    disk.mkdir()
    await rig.daily.look()
    assert list(disk.iterdir()) == []  # a failure is given a while
    rig.now += AGAIN
    await rig.daily.look()

    made = rig.events[-1]
    assert isinstance(made, WeekArchived)
    assert made.size == (disk / "2026-W10.tar.zst").stat().st_size
    assert rig.known.unarchived == ""


async def test_a_failure_does_not_hold_back_the_snapshot_of_the_next_day(rig: DailyRig):
    rig.now += timedelta(hours=23, minutes=55)
    rig.room = 0.0
    await rig.daily.look()
    rig.room = 2.0**40
    rig.now += timedelta(minutes=5)
    await rig.daily.look()

    assert rig.told[-1] == ("SnapshotTaken", "2026-03-03", False)


async def test_what_cannot_be_deleted_is_logged(rig: DailyRig, caplog: pytest.LogCaptureFixture):
    await rig.daily.look()
    (rig.data_dir / "archives").write_text("not a folder")
    rig.now += timedelta(days=1)

    with caplog.at_level(logging.ERROR):
        await rig.daily.look()

    assert len(rig.told) == 2
    assert "cannot delete old" in caplog.text


async def test_what_is_odd_in_a_snapshot_is_logged(rig: DailyRig, caplog: pytest.LogCaptureFixture):
    rig.project = rig.project / "not there"

    with caplog.at_level(logging.INFO):
        await rig.daily.look()

    assert "projects/web/state: No such file or directory" in caplog.text


async def test_a_daemon_that_ends_does_not_wait_for_its_snapshot(rig: DailyRig):
    (rig.project / "second").write_text("x")
    rig.go.clear()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rig.daily.run)
        await anyio.to_thread.run_sync(rig.working.wait)
        tasks.cancel_scope.cancel()
    rig.go.set()

    with rig.snapshots.alone(wait=True):  # once the thread has let go
        assert rig.snapshots.days() == []
    assert rig.events == []


async def test_a_snapshot_that_vanished_is_told_once_and_taken_again(rig: DailyRig) -> None:
    await rig.daily.look()
    rig.snapshots.directory.rename(rig.data_dir / "elsewhere")

    await rig.daily.look()
    await rig.daily.look()

    day = FIRST.date().isoformat()
    kinds = ["SnapshotTaken", "SnapshotMissed", "SnapshotTaken"]
    assert [(kind, of) for kind, of, _ in rig.told] == [(kind, day) for kind in kinds]
    (missed,) = (event for event in rig.events if isinstance(event, SnapshotMissed))
    assert missed.error == f"{GONE} {rig.snapshots.directory}"
    assert rig.snapshots.days() == [FIRST.date()]


async def test_a_snapshot_that_vanished_while_nobody_looked_is_missing_until_the_next(
    rig: DailyRig,
) -> None:
    await rig.daily.look()
    rig.snapshots.directory.rename(rig.data_dir / "elsewhere")
    rig.now += timedelta(days=1)
    rig.room = 0.0
    rig.restart()

    await rig.daily.look()

    assert rig.missed[0] == FIRST.date().isoformat()
    assert rig.known.missing is not None
    rig.room = 2.0**40
    rig.now += AGAIN
    await rig.daily.look()
    assert rig.known.missing is None
