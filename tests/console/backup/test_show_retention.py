from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from tests.console.console_rig import Said, here
from tests.extras.backup.snapshot_rig import SnapshotRig

TODAY = datetime.now(UTC).date()


@pytest.fixture
def rig(tmp_path: Path) -> SnapshotRig:
    return SnapshotRig(tmp_path)


def retention(rig: SnapshotRig, *options: str) -> Said:
    return here("retention", *options, "--data-dir", str(rig.data_dir))


def configure(rig: SnapshotRig, text: str) -> None:
    (rig.data_dir / "safetyd.toml").write_text(text)


@pytest.mark.req("S2.23")
def test_what_goes_when_and_how_large_it_is(rig: SnapshotRig):
    rig.take(TODAY - timedelta(days=1))
    rig.take(TODAY)
    rig.archives.write("2026-W10", rig.snapshots.path(TODAY), lambda: None)

    said = retention(rig)

    assert said.returncode == 0, said.stderr
    lines = [line.split() for line in said.stdout.splitlines()]
    assert lines[0] == ["KIND", "NAME", "SIZE", "FREES", "EXPIRES"]
    goes = (TODAY + timedelta(days=29)).isoformat()
    yesterday = (TODAY - timedelta(days=1)).isoformat()
    assert (lines[1][:2], lines[1][-1]) in [
        (["snapshot", yesterday], goes),
        (["snapshot", yesterday], "yet"),  # the last of a week that nobody has archived
    ]
    assert " ".join(lines[2][-6:]) == "not yet: it is the newest"
    assert (lines[3][:2], lines[3][-1]) == (["archive", "2026-W10"], "2027-03-08")
    assert any(line[:1] == ["audit"] and "forever" in " ".join(line) for line in lines)


@pytest.mark.req("S2.23")
def test_what_is_due_is_deleted_at_once_if_asked(rig: SnapshotRig):
    old = TODAY - timedelta(days=40)
    rig.take_all(old, 2)
    rig.take(TODAY)
    for day in (old, old + timedelta(days=1)):
        year, week, _ = day.isocalendar()
        name = f"{year}-W{week:02d}"
        if name not in rig.archives.weeks():
            rig.archives.write(name, rig.snapshots.path(day), lambda: None)

    assert len(rig.snapshots.days()) == 3
    said = msgspec.json.decode(retention(rig, "--now", "--json").stdout)

    assert [item["name"] for item in said["deleted"]] == [
        old.isoformat(),
        (old + timedelta(days=1)).isoformat(),
    ]
    assert rig.snapshots.days() == [TODAY]
    assert "Deleted" not in retention(rig, "--now").stdout


def test_days_without_a_snapshot_are_missing(rig: SnapshotRig):
    configure(rig, '[history]\nsnapshot_at = "00:00"\n[notifications]\ntimezone = "UTC"\n')
    rig.take(TODAY - timedelta(days=2))
    rig.take(TODAY)

    said = retention(rig)

    assert f"SNAPSHOT MISSING: {TODAY - timedelta(days=1)}\n" in said.stdout


def test_where_nothing_is_kept_it_says_why(rig: SnapshotRig):
    assert "set history.snapshot_at" in retention(rig, "--now").stdout
    configure(rig, '[history]\nsnapshot_at = "00:00"\n')
    assert "No snapshots yet." in retention(rig).stdout


def test_archives_are_looked_for_where_the_configuration_says(rig: SnapshotRig, tmp_path: Path):
    (tmp_path / "disk").mkdir()
    config = tmp_path / "my.toml"
    config.write_text(f'[history]\narchive_dir = "{tmp_path}/disk"\n')
    rig.take(TODAY)
    archive = rig.archives.write("2026-W10", rig.snapshots.path(TODAY), lambda: None)
    archive.rename(tmp_path / "disk" / archive.name)

    assert "archive" in retention(rig, "--config", str(config)).stdout
    assert "2026-W10" not in retention(rig).stdout


def test_a_snapshot_under_way_is_not_disturbed(rig: SnapshotRig):
    rig.take(TODAY)

    with rig.snapshots.alone():
        said = retention(rig, "--now")

    assert said.returncode == 1
    assert "another safetyd process" in said.stderr


def test_a_wrong_configuration_or_folder_is_named(rig: SnapshotRig):
    configure(rig, "[history]\nsnapshot_at = 5\n")
    assert "history.snapshot_at is 5" in retention(rig).stderr
    configure(rig, "")
    (rig.data_dir / "archives").write_text("not a folder")
    assert "Not a directory" in retention(rig).stderr
