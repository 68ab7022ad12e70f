import os
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.policy import Policy
from safetyd.extras.backup.folder_copy import NoRoom
from safetyd.extras.backup.retention import Retention
from safetyd.extras.backup.snapshots import Busy, SnapshotFacts, StateFolder, Wanted, named_day
from safetyd.journal.audit import Audit, files
from safetyd.journal.checkpoints import Checkpoints, SavedCheckpoint
from tests.extras.backup.snapshot_rig import MONDAY, SnapshotRig

HALF_WAY = """
import sys
from datetime import date, datetime
from pathlib import Path
from safetyd.extras.backup.retention import Retention
from safetyd.extras.backup.snapshots import StateFolder, Wanted

def spare():
    # The second file is about to be written.
    if next(Path(sys.argv[1]).glob("snapshots/.*.new/projects/web/state/*"), None):
        print("half way", flush=True)
        sys.stdin.read()
    return 2**40

wanted = Wanted(date(2026, 3, 2), datetime.min, (StateFolder("web", Path(sys.argv[2])),))
Retention(Path(sys.argv[1])).snapshots.take(wanted, spare=spare, rest=lambda: None)
"""


@pytest.fixture
def rig(tmp_path: Path) -> SnapshotRig:
    return SnapshotRig(tmp_path)


@pytest.mark.req("S2.21")
def test_a_snapshot_has_the_state_of_projects_and_says_so(rig: SnapshotRig):
    (rig.project / "sub").mkdir()
    (rig.project / "sub/more").write_text("more")

    facts = rig.take(MONDAY, late=True)

    path = rig.data_dir / "snapshots/2026-03-02"
    assert (path / "projects/web/state/notes").read_text() == "first"
    assert (path / "projects/web/state/sub/more").read_text() == "more"
    assert (facts.day, facts.late, facts.linked, facts.noted) == (MONDAY, True, 0, 0)
    assert msgspec.json.decode((path / "snapshot.json").read_bytes(), type=SnapshotFacts) == facts
    assert rig.snapshots.days() == [MONDAY]


@pytest.mark.req("S2.21")
def test_a_snapshot_has_safetyds_own_memory_and_no_keys(rig: SnapshotRig):
    (rig.data_dir / "keys").mkdir()
    (rig.data_dir / "keys/operator.nk").write_text("SU")
    checkpoints = Checkpoints(rig.data_dir / "checkpoints")
    engine = Engine(Policy())
    saved = checkpoints.write(SavedCheckpoint(stream_seq=0, t=0.0, engine=engine.save()()))
    audit = Audit(rig.data_dir / "audit", 1_000_000)
    audit.open()
    audit.append([b'{"event":"x","seq":1}'], 1)
    torn = files(rig.data_dir / "audit")[0]
    with torn.open("ab") as file:
        file.write(b'{"event":"half')
    (rig.data_dir / "audit/audit-00000002.jsonl").write_text("damaged")
    settings = rig.data_dir / "any.toml"
    settings.write_text("# mine")

    rig.take(MONDAY, settings=settings)

    path = rig.snapshots.path(MONDAY)
    assert (path / "safetyd/checkpoints" / saved.name).read_bytes() == saved.read_bytes()
    assert (path / "safetyd/safetyd.toml").read_text() == "# mine"
    (head,) = msgspec.json.decode((path / "safetyd/audit-heads.json").read_bytes())
    assert (head["file"], head["seq"], head["hash"]) == ("audit-00000001.jsonl", 1, audit.head)
    audit.close()
    assert not [found for found in path.rglob("*") if found.suffix == ".nk"]


@pytest.mark.req("S2.21")
def test_files_that_have_not_changed_take_room_once(rig: SnapshotRig):
    rig.take(MONDAY)
    tuesday = MONDAY + timedelta(days=1)

    facts = rig.take(tuesday)

    of_monday, of_tuesday = (
        rig.snapshots.path(day) / "projects/web/state/notes" for day in (MONDAY, tuesday)
    )
    assert of_monday.samefile(of_tuesday)
    assert facts.linked == 1


def test_a_snapshot_whose_index_is_lost_is_followed_by_whole_copies(rig: SnapshotRig):
    rig.take(MONDAY)
    (rig.snapshots.path(MONDAY) / "index.msgpack").write_bytes(b"?")

    assert rig.take(MONDAY + timedelta(days=1)).linked == 0


def test_names_of_projects_lead_nowhere_else(rig: SnapshotRig):
    for name in ("..", "a/../../b", "%2F", ""):
        rig.folders += (StateFolder(name, rig.project),)

    rig.take(MONDAY)

    projects = rig.snapshots.path(MONDAY) / "projects"
    assert sorted(path.name for path in projects.iterdir()) == [
        *("%", "%..", "%252F", "a%2F..%2F..%2Fb", "web")
    ]
    assert all((path / "state/notes").exists() for path in projects.iterdir())


def test_folders_within_folders_are_copied_once(rig: SnapshotRig):
    (rig.project / "state/deep").mkdir(parents=True)
    (rig.project / "state/deep/file").write_text("x")
    rig.folders = tuple(
        StateFolder("web", rig.project, path) for path in ("state/deep", "state", "state/", "notes")
    )

    facts = rig.take(MONDAY)

    path = rig.snapshots.path(MONDAY) / "projects/web"
    assert (path / "state/deep/file").exists()
    assert (path / "notes").read_text() == "first"
    assert facts.noted == 0


def test_a_folder_that_is_not_there_is_noted(rig: SnapshotRig):
    rig.folders += (StateFolder("gone", rig.project / "gone"),)

    facts = rig.take(MONDAY)

    assert facts.notes == ("projects/gone/state: No such file or directory",)


@pytest.mark.req("S2.21")
def test_a_snapshot_that_fails_leaves_nothing(rig: SnapshotRig):
    wanted = Wanted(MONDAY, datetime.now(UTC), rig.folders)

    with pytest.raises(NoRoom):
        rig.snapshots.take(wanted, spare=lambda: 0, rest=lambda: None)

    assert rig.snapshots.days() == []
    assert [path.name for path in rig.snapshots.directory.iterdir()] == [".lock"]


@pytest.mark.req("S2.21")
def test_a_snapshot_that_is_killed_half_way_does_not_count_and_is_swept_by_the_next(
    rig: SnapshotRig,
):
    (rig.project / "second").write_text("x")
    arguments = (str(rig.data_dir), str(rig.project))
    with subprocess.Popen(
        [sys.executable, "-c", HALF_WAY, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half way\n"
        process.kill()
    half = rig.snapshots.directory / ".2026-03-02.new"
    assert (half / "projects/web/state/notes").exists()
    assert rig.snapshots.days() == []

    rig.take(MONDAY + timedelta(days=1))

    assert not half.exists()
    assert rig.snapshots.days() == [MONDAY + timedelta(days=1)]


def test_only_what_safetyd_made_counts_and_is_swept(rig: SnapshotRig):
    rig.take(MONDAY)
    directory = rig.snapshots.directory
    for name in ("2026-03-05", "2026-03-01.new", ".mine.new", "notes"):
        (directory / name).mkdir()
    (directory / "2026-03-06").symlink_to(rig.snapshots.path(MONDAY))
    (directory / ".2026-03-07.gone").mkdir()

    rig.snapshots.sweep()

    assert rig.snapshots.days() == [MONDAY]
    assert sorted(path.name for path in directory.iterdir()) == [
        *(".lock", ".mine.new", "2026-03-01.new"),
        *("2026-03-02", "2026-03-05", "2026-03-06", "notes"),
    ]


def test_two_processes_are_not_at_work_at_once(rig: SnapshotRig):
    rig.take(MONDAY)

    with (
        rig.snapshots.alone(),
        pytest.raises(Busy, match="another safetyd process"),
        Retention(rig.data_dir).snapshots.alone(),
    ):
        pass


def test_a_folder_that_its_owner_may_not_write_to_is_deleted_with_its_snapshot(rig: SnapshotRig):
    (rig.project / "fixed").mkdir()
    (rig.project / "fixed/file").write_text("x")
    (rig.project / "fixed").chmod(0o500)
    rig.take(MONDAY)

    rig.snapshots.drop(MONDAY)
    (rig.project / "fixed").chmod(0o700)

    assert not os.path.lexists(rig.snapshots.path(MONDAY))
    assert rig.snapshots.days() == []


@pytest.mark.parametrize("name", ["2026-13-01", "2026-02-30", "2026-1-1", "20260101", "x"])
def test_what_is_not_called_after_a_day_is_no_snapshot(name: str):
    assert named_day(name) is None
    assert named_day("2026-02-28") == date(2026, 2, 28)
