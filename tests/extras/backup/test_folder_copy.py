import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from safetyd.extras.backup.folder_copy import CHUNK_BYTES, MAX_DEPTH, FolderCopy, NoRoom

PLENTY = 2**60


class CopyRig:
    """A project's folder, and copies of it, each of which knows the one before."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "project"
        self.own = directory / "data"
        self._copies = directory / "data" / "copies"
        for path in (self.root / "state", self._copies):
            path.mkdir(parents=True)
        self._last: tuple[Path, FolderCopy] | None = None
        self.spare = PLENTY
        self.rests = 0
        self.meanwhile: Callable[[], object] = int

    def write(self, name: str, text: str) -> Path:
        path = self.root / "state" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def copy(self, path: str = "state") -> tuple[Path, FolderCopy]:
        target = self._copies / str(len(list(self._copies.iterdir())))
        target.mkdir()
        before, known = (None, {}) if self._last is None else (self._last[0], self._last[1].index)
        copy = FolderCopy(
            target,
            before=before,
            known=known,
            spare=lambda: self.spare,
            rest=self._rest,
            own=(self.own, self.own / "not there"),
        )
        copy.add(self.root, path, "projects/p/state")
        self._last = target, copy
        return target / "projects/p/state", copy

    def _rest(self) -> None:
        self.rests += 1
        self.meanwhile()


@pytest.fixture
def rig(tmp_path: Path) -> CopyRig:
    return CopyRig(tmp_path)


def test_files_are_copied_with_their_modes_and_times(rig: CopyRig):
    path = rig.write("sub/tool.sh", "echo")
    path.chmod(0o750)
    os.utime(path, ns=(1_000, 2_000))

    target, copy = rig.copy()

    found = target / "sub/tool.sh"
    assert found.read_text() == "echo"
    assert (found.stat().st_mode & 0o777, found.stat().st_mtime_ns) == (0o750, 2_000)
    assert (copy.files, copy.size, copy.notes) == (1, 4, [])


def test_what_has_not_changed_is_the_same_file_and_what_has_is_another(rig: CopyRig):
    rig.write("same", "a")
    rig.write("other", "b")
    first, _ = rig.copy()
    rig.write("other", "c")

    second, copy = rig.copy()

    assert (first / "same").samefile(second / "same")
    assert not (first / "other").samefile(second / "other")
    assert ((first / "other").read_text(), (second / "other").read_text()) == ("b", "c")
    assert (copy.files, copy.linked) == (2, 1)


def test_a_change_is_seen_though_size_and_time_are_put_back(rig: CopyRig):
    path = rig.write("ledger", "paid 100")
    before = path.stat()
    rig.copy()
    path.write_text("paid 900")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    target, copy = rig.copy()

    assert (target / "ledger").read_text() == "paid 900"
    assert copy.linked == 0


def test_a_copy_before_that_lost_a_file_is_not_linked_to(rig: CopyRig):
    rig.write("a", "a")
    first, _ = rig.copy()
    (first / "a").unlink()

    target, copy = rig.copy()

    assert (target / "a").read_text() == "a"
    assert copy.linked == 0


def test_links_are_kept_as_links_and_not_followed(rig: CopyRig, tmp_path: Path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("S")
    (rig.root / "state/folder").symlink_to(secret)
    (rig.root / "state/file").symlink_to(secret / "key")
    (rig.root / "state/nowhere").symlink_to("gone")

    target, copy = rig.copy()

    assert (target / "folder").readlink() == secret
    assert (target / "file").readlink() == secret / "key"
    assert (target / "nowhere").readlink() == Path("gone")
    assert (copy.files, copy.size) == (3, 0)


@pytest.mark.parametrize("path", ["way/state", "way", "../project/state", "/etc", "gone/state"])
def test_a_path_that_leads_elsewhere_is_noted_and_nothing_is_copied(
    rig: CopyRig, tmp_path: Path, path: str
):
    (tmp_path / "elsewhere/state").mkdir(parents=True)
    (tmp_path / "elsewhere/state/key").write_text("S")
    (rig.root / "way").symlink_to(tmp_path / "elsewhere")

    target, copy = rig.copy(path)

    assert not (target / "key").exists()
    assert copy.notes or target.is_symlink()
    assert copy.size == 0


def test_what_is_neither_file_nor_folder_is_noted(rig: CopyRig):
    os.mkfifo(rig.root / "state/pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(rig.root / "state/sock"))
        rig.write("file", "x")

        target, copy = rig.copy()

    assert [path.name for path in target.iterdir()] == ["file"]
    assert copy.notes == [
        "projects/p/state/pipe: is neither a file nor a folder",
        "projects/p/state/sock: is neither a file nor a folder",
    ]


@pytest.mark.parametrize(("size", "left"), [(10, 14), (3 * CHUNK_BYTES, 10)])
def test_a_file_that_changes_while_it_is_read_is_noted_and_copied_again_next_time(
    rig: CopyRig, size: int, left: int
):
    path = rig.write("log", "a" * size)
    rig.meanwhile = lambda: os.truncate(path, left)
    target, copy = rig.copy()

    assert copy.notes == [
        "projects/p/state/log: changed while it was read, or cannot be read completely"
    ]
    assert (target / "log").stat().st_size < max(size, left)
    rig.meanwhile = int
    again, copy = rig.copy()
    assert (again / "log").read_bytes() == path.read_bytes()
    assert (copy.linked, copy.notes) == (0, [])


def test_what_vanishes_is_noted_and_the_rest_is_copied(rig: CopyRig):
    rig.write("a", "a")
    gone = rig.write("b", "b")
    folder = rig.write("c/inner", "c").parent
    rig.write("d", "d")

    def vanish() -> None:
        gone.unlink(missing_ok=True)
        if folder.exists():
            folder.rename(rig.root / "moved")

    rig.meanwhile = vanish
    target, copy = rig.copy()

    assert sorted(path.name for path in target.iterdir()) == ["a", "d"]
    assert copy.notes == [
        "projects/p/state/b: No such file or directory",
        "projects/p/state/c: No such file or directory",
    ]


def test_safetyds_own_directory_is_left_out_wherever_it_lies(rig: CopyRig):
    rig.own.rename(rig.root / "state/data")
    rig.own.symlink_to(rig.root / "state/data")
    rig.write("file", "x")

    target, copy = rig.copy()

    assert [path.name for path in target.iterdir()] == ["file"]
    assert copy.notes == ["projects/p/state/data: belongs to safetyd"]


def test_folders_that_go_too_deep_are_noted(rig: CopyRig):
    rig.write("/".join(["d"] * (MAX_DEPTH + 5) + ["file"]), "x")

    _, copy = rig.copy()

    assert copy.files == 0
    assert [note.rpartition(": ")[2] for note in copy.notes] == [
        f"is more than {MAX_DEPTH} folders deep"
    ]


def test_names_that_are_not_text_are_copied_and_known_again(rig: CopyRig):
    Path(os.fsdecode(os.fsencode(rig.root / "state") + b"/\xff\n")).write_text("x")
    rig.copy()

    target, copy = rig.copy()

    assert [os.fsencode(path.name) for path in target.iterdir()] == [b"\xff\n"]
    assert copy.linked == 1


def test_a_disk_that_would_fill_ends_it(rig: CopyRig):
    rig.write("large", "x" * 100)
    rig.spare = 99

    with pytest.raises(NoRoom, match="large has 100 bytes"):
        rig.copy()


def test_it_rests_now_and_then(rig: CopyRig):
    for number in range(40):
        rig.write(f"empty{number}", "")

    rig.copy()

    assert rig.rests == 2


@pytest.mark.parametrize(
    ("refused", "linked"), [((), 1), (("link",), 0), (("link", "copy_file_range"), 0)]
)
def test_a_file_system_that_cannot_link_or_share_gets_copies(
    rig: CopyRig, monkeypatch: pytest.MonkeyPatch, refused: tuple[str, ...], linked: int
):
    rig.write("large", "x" * (2 * CHUNK_BYTES + 1))
    rig.copy()
    for name in refused:
        monkeypatch.setattr(os, name, _refused)

    target, copy = rig.copy()

    assert (target / "large").stat().st_size == 2 * CHUNK_BYTES + 1
    assert (copy.files, copy.linked, copy.notes) == (1, linked, [])


def test_a_file_that_cannot_be_read_to_its_end_is_noted(
    rig: CopyRig, monkeypatch: pytest.MonkeyPatch
):
    rig.write("bad", "x")
    monkeypatch.setattr(os, "copy_file_range", _refused)
    monkeypatch.setattr(os, "read", _refused)

    _, copy = rig.copy()

    assert len(copy.notes) == 1


def _refused(*_args: object, **_kwargs: object) -> int:
    raise OSError(5, "Input/output error")
