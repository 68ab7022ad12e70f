import subprocess
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.extras.backup.weekly_archives import Archives, last_day, week_of
from tests.extras.backup.snapshot_rig import MONDAY, SnapshotRig


@pytest.fixture
def rig(tmp_path: Path) -> SnapshotRig:
    found = SnapshotRig(tmp_path)
    (found.project / "link").symlink_to("notes")
    (found.project / "ö\udcff").write_text("odd")
    found.take(MONDAY)
    return found


def write(rig: SnapshotRig) -> Path:
    return rig.archives.write("2026-W10", rig.snapshots.path(MONDAY), lambda: None)


@pytest.mark.req("S2.23")
def test_an_archive_is_read_by_tar(rig: SnapshotRig, tmp_path: Path):
    path = write(rig)

    assert path == rig.data_dir / "archives/2026-W10.tar.zst"
    assert path.stat().st_mode & 0o777 == 0o600
    subprocess.run(["tar", "--zstd", "-xf", str(path), "-C", str(tmp_path)], check=True)
    state = tmp_path / "2026-W10/2026-03-02/projects/web/state"
    assert (state / "notes").read_text() == "first"
    assert (state / "link").readlink() == Path("notes")
    assert (state / "ö\udcff").read_text() == "odd"
    assert rig.archives.weeks() == ["2026-W10"]


def test_archives_may_be_elsewhere_but_no_folder_is_made_there(rig: SnapshotRig, tmp_path: Path):
    rig.archives = Archives(rig.data_dir, str(tmp_path / "disk"))

    with pytest.raises(FileNotFoundError):
        write(rig)
    assert rig.archives.weeks() == []

    (tmp_path / "disk").mkdir()
    assert write(rig) == tmp_path / "disk/2026-W10.tar.zst"


def test_a_file_of_somebody_else_is_neither_counted_nor_written_over(rig: SnapshotRig):
    rig.archives.directory.mkdir()
    theirs = rig.archives.path("2026-W10")
    theirs.write_bytes(b"theirs, and longer than a frame")
    rig.archives.path("2026-W11").write_bytes(b"?")
    rig.archives.path("2026-W12").symlink_to(theirs)

    with pytest.raises(FileExistsError, match="move it away"):
        write(rig)
    assert rig.archives.weeks() == []
    assert theirs.read_bytes() == b"theirs, and longer than a frame"


def test_an_archive_of_the_version_before_counts(rig: SnapshotRig):
    path = write(rig)
    frame = b"\x5a\x2a\x4d\x18" + len(b"safetyd archive 1").to_bytes(4, "little")
    path.write_bytes(frame + b"safetyd archive 1" + path.read_bytes())

    assert rig.archives.weeks() == ["2026-W10"]


def test_an_archive_that_fails_leaves_nothing_and_one_that_was_killed_is_written_over(
    rig: SnapshotRig,
):
    def full() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        rig.archives.write("2026-W10", rig.snapshots.path(MONDAY), full)
    assert list(rig.archives.directory.iterdir()) == []

    (rig.archives.directory / ".2026-W10.tar.zst.new").write_bytes(b"half")
    write(rig)
    assert [path.name for path in rig.archives.directory.iterdir()] == ["2026-W10.tar.zst"]


@given(st.dates(date(2020, 1, 1), date(2040, 12, 31)))
def test_a_week_is_found_by_its_name(day: date):
    sunday = last_day(week_of(day))

    assert sunday is not None
    assert sunday - timedelta(days=6) <= day <= sunday


@pytest.mark.parametrize("name", ["2026-W00", "2026-W54", "2026-W1", "2026W10", "notes"])
def test_what_is_not_called_after_a_week_is_no_archive(name: str):
    assert last_day(name) is None
