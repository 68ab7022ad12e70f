from datetime import date, timedelta
from pathlib import Path

import pytest

from safetyd.extras.backup.retention import ARCHIVE_DAYS, SNAPSHOT_DAYS
from tests.extras.backup.snapshot_rig import MONDAY, SnapshotRig


@pytest.fixture
def rig(tmp_path: Path) -> SnapshotRig:
    return SnapshotRig(tmp_path)


def archive(rig: SnapshotRig, today: date) -> list[str]:
    tried = list(rig.kept.archive_weeks(today, lambda: None))
    assert all(each.size == rig.archives.path(each.week).stat().st_size for each in tried)
    return [rig.archives.path(each.week).name for each in tried]


@pytest.mark.req("S2.23")
def test_snapshots_go_after_30_days_and_not_before(rig: SnapshotRig):
    rig.take_all(MONDAY, 9)
    archive(rig, MONDAY + timedelta(days=14))
    due = MONDAY + timedelta(days=SNAPSHOT_DAYS)

    assert rig.kept.delete_due(due - timedelta(days=1)) == []
    (gone,) = rig.kept.delete_due(due)

    assert (gone.kind, gone.name, gone.goes) == ("snapshot", "2026-03-02", due)
    assert rig.snapshots.days()[0] == MONDAY + timedelta(days=1)


@pytest.mark.req("S2.23")
def test_the_last_snapshot_of_each_week_that_is_over_is_archived_once(rig: SnapshotRig):
    rig.take_all(MONDAY, 10)
    wednesday = MONDAY + timedelta(days=9)

    assert archive(rig, wednesday) == ["2026-W10.tar.zst"]
    assert archive(rig, wednesday) == []
    assert archive(rig, wednesday + timedelta(days=7)) == ["2026-W11.tar.zst"]


@pytest.mark.req("S2.23")
def test_archives_go_after_a_year(rig: SnapshotRig):
    rig.take_all(MONDAY, 8)
    archive(rig, MONDAY + timedelta(days=7))
    sunday = MONDAY + timedelta(days=6)
    due = sunday + timedelta(days=ARCHIVE_DAYS)

    names = [item.name for item in rig.kept.delete_due(due - timedelta(days=1))]
    assert "2026-W10" not in names
    (gone,) = rig.kept.delete_due(due)

    assert (gone.kind, gone.name) == ("archive", "2026-W10")
    assert rig.archives.weeks() == []


def test_a_week_that_is_not_archived_keeps_its_last_snapshot(rig: SnapshotRig):
    rig.take_all(MONDAY, 8)

    rig.kept.delete_due(MONDAY + timedelta(days=100))

    sunday, monday = rig.kept.planned()
    assert (sunday.name, sunday.goes, sunday.stays) == (
        "2026-03-08",
        None,
        "2026-W10 is not archived yet",
    )
    assert (monday.name, monday.goes, monday.stays) == ("2026-03-09", None, "it is the newest")


def test_the_plan_says_what_is_freed_and_that_is_so(rig: SnapshotRig):
    (rig.project / "large").write_bytes(bytes(100_000))
    rig.take(MONDAY)
    (rig.project / "notes").write_text("second")
    rig.take(MONDAY + timedelta(days=1))

    first, second = rig.kept.planned()

    assert first.size > 100_000
    assert second.size > 100_000
    assert first.frees < 10_000
    (rig.project / "large").unlink()
    rig.snapshots.drop(MONDAY)
    (second,) = rig.kept.planned()
    assert second.frees > 100_000


@pytest.mark.req("S2.23")
def test_nothing_goes_that_is_not_safetyds_own(rig: SnapshotRig):
    rig.take_all(MONDAY, 2)
    theirs = rig.snapshots.directory / "2026-01-01"
    theirs.mkdir()
    (theirs / "photo").write_text("x")
    link = rig.snapshots.directory / "2026-01-02"
    link.symlink_to(rig.project)
    rig.archives.directory.mkdir()
    archive_ = rig.archives.path("2020-W10")
    archive_.write_text("theirs")

    gone = rig.kept.delete_due(date(2036, 1, 1))

    assert [item.name for item in gone] == ["2026-03-02"]
    assert (theirs / "photo").exists()
    assert link.is_symlink()
    assert (rig.project / "notes").exists()
    assert archive_.read_text() == "theirs"


def test_days_without_a_snapshot_are_missing_since_the_first_or_the_last(rig: SnapshotRig):
    first, second, third, fourth = (MONDAY + timedelta(days=days) for days in range(4))
    assert rig.kept.missing_days(fourth) == []

    for day in (first, third):
        rig.take(day)

    assert rig.kept.missing_days(fourth) == [second, fourth]
    assert rig.kept.missing_days(fourth, since_last=True) == [fourth]
    assert len(rig.kept.missing_days(first + timedelta(days=100))) == SNAPSHOT_DAYS
