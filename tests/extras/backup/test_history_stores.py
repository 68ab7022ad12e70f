"""Version history in a backup: stores that commits are made in while they are copied."""

import fcntl
import os
from contextlib import closing
from pathlib import Path

import pytest

from safetyd.extras.backup import history_stores
from safetyd.extras.backup.backup import NoBackup
from safetyd.extras.file_history.folder_changes import CommitLimits
from safetyd.extras.file_history.history_records import CommitOrder
from safetyd.extras.file_history.private_store import PrivateStore
from safetyd.extras.file_history.project_history import ProjectHistory
from tests.extras.backup.backup_rig import AT, BackupRig, ignored


class HistoryBackupRig(BackupRig):
    """A data directory with the history of a project, and the project's folder."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.project = directory / "shop"
        self.project.mkdir()

    def history(self, data_dir: Path | None = None) -> ProjectHistory:
        store = (data_dir or self.data_dir) / "history" / "shop"
        return ProjectHistory("shop", self.project, (), store)

    @property
    def store(self) -> PrivateStore:
        return PrivateStore("shop", self.project, self.data_dir / "history" / "shop")

    def commit(self, text: str) -> str:
        (self.project / "cart.py").write_text(text)
        made = self.history().commit(CommitOrder(why="after", at=AT, agent="code"))
        assert made is not None
        return made.commit

    def commits(self, data_dir: Path) -> list[str]:
        return [row.commit for row in self.history(data_dir).rows()]


@pytest.fixture
def rig(tmp_path: Path) -> HistoryBackupRig:
    return HistoryBackupRig(tmp_path)


def test_a_history_goes_on_from_a_backup(rig: HistoryBackupRig):
    first, second = rig.commit("first"), rig.commit("second")

    facts = rig.restore(rig.back_up(history=True))

    assert (facts.history, facts.stores) == (True, 1)
    restored = rig.history(rig.restored)
    assert rig.commits(rig.restored) == [second, first]
    restored.roll_back("soft", first, (), CommitOrder(why="rollback", at=AT, approver="alice"))
    assert (rig.project / "cart.py").read_text() == "first"
    (rig.project / "cart.py").write_text("third")
    assert restored.commit(CommitOrder(why="after", at=AT, agent="code")) is not None


def test_a_history_whose_refs_are_all_packed_can_be_read(rig: HistoryBackupRig):
    made = rig.commit("first")
    with rig.store.locked() as git:
        git.read("pack-refs", "--all")

    rig.restore(rig.back_up(history=True))

    assert rig.commits(rig.restored) == [made]


def test_commits_that_are_made_meanwhile_wait_for_nothing_and_break_nothing(
    rig: HistoryBackupRig,
):
    first = rig.commit("first")
    with closing(rig.prepared(history=True)) as prepared:
        second = rig.commit("second")
        prepared.write(rig.directory / "backup", ignored)

    rig.restore(rig.directory / "backup")

    assert rig.commits(rig.restored) == [first]
    assert rig.commits(rig.data_dir) == [second, first]


def test_nothing_is_packed_while_a_backup_is_written(
    rig: HistoryBackupRig, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("safetyd.extras.file_history.private_store._LOOSE", -1)
    rig.commit("zeroth")
    rig.store.finish()
    with closing(rig.prepared(history=True)) as prepared:
        loose = sorted(rig.store.folder.glob("objects/??/*"))
        rig.commit("first")
        assert loose == [path for path in loose if path.exists()]
        prepared.write(rig.directory / "backup", ignored)

    with rig.store.locked() as git:
        store = rig.store
        store.pack(git, CommitLimits())
        store.finish()
    assert not list(rig.store.folder.glob("objects/??/*"))


def test_a_store_that_is_being_packed_is_waited_for_and_then_named(
    rig: HistoryBackupRig, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(history_stores, "WAIT_S", 0.0)
    rig.commit("first")
    packing = os.open(rig.store.folder.with_suffix(".packing"), os.O_RDWR | os.O_CREAT)
    fcntl.flock(packing, fcntl.LOCK_EX)

    with pytest.raises(NoBackup, match=r"shop-shadow\.git is being packed"):
        rig.prepared(history=True)
    os.close(packing)

    rig.prepared(history=True).close()


def test_what_is_half_written_is_left_out(rig: HistoryBackupRig):
    rig.commit("first")
    for name in ("index.lock", "objects/tmp_obj_1", "refs/x.lock"):
        (rig.store.folder / name).write_text("half")

    rig.restore(rig.back_up(history=True))

    found = {path.name for path in (rig.restored / "history").rglob("*")}
    assert not found & {"index.lock", "tmp_obj_1", "x.lock"}


def test_without_being_asked_a_backup_has_no_history_and_says_so(rig: HistoryBackupRig):
    rig.commit("first")

    facts = rig.restore(rig.back_up())

    assert (facts.history, facts.stores) == (False, 1)
    assert not (rig.restored / "history").exists()
