import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from safetyd.keeping import backup_file
from safetyd.keeping.backup_file import BackupUnusable, writing
from safetyd.keeping.restoring import NotEmpty, Restoring
from safetyd.keeping.zstd_files import skipped
from tests.keeping.backup_rig import AT, PASSPHRASE, BackupRig


@pytest.fixture
def rig(tmp_path: Path) -> BackupRig:
    return BackupRig(tmp_path)


def assert_nothing_restored(rig: BackupRig) -> None:
    assert not rig.restored.exists()
    assert [path.name for path in rig.directory.iterdir() if path.name.startswith(".")] == []


def made_up(rig: BackupRig, *members: tarfile.TarInfo) -> Path:
    """A file that is whole, whatever is in it."""
    path = rig.directory / "made-up"
    with writing(path, AT, None) as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    return path


def member(name: str, **fields: object) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(found, field, value)
    return found


def test_an_empty_directory_is_filled_and_another_is_left_alone(rig: BackupRig):
    path = rig.back_up()
    rig.restored.mkdir()
    rig.restore(path)
    assert (rig.restored / "audit").is_dir()

    with pytest.raises(NotEmpty, match="is not empty: choose a new directory"):
        rig.restore(path)
    with pytest.raises(NotEmpty, match="is not a directory"):
        rig.restore(path, into="backup")
    (rig.directory / "link").symlink_to(rig.directory / "nowhere")
    with pytest.raises(NotEmpty, match="is not a directory"):
        rig.restore(path, into="link")


def test_directories_above_are_made(rig: BackupRig):
    rig.restore(rig.back_up(), into="a/b/c")

    assert (rig.directory / "a/b/c/audit").is_dir()


def test_progress_adds_up_to_the_size(rig: BackupRig):
    heard: list[int] = []
    restoring = Restoring(rig.back_up(), rig.restored, str)

    restoring.run(heard.append)

    assert sum(heard) == restoring.size


@pytest.mark.parametrize("passphrase", [None, PASSPHRASE])
def test_a_file_with_one_changed_bit_is_refused_wherever_it_is(
    rig: BackupRig, passphrase: str | None
):
    path = rig.back_up(passphrase)
    whole = path.read_bytes()
    for place in (3, 20, len(whole) // 2, len(whole) - 60, len(whole) - 35, len(whole) - 1):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])

        with pytest.raises(BackupUnusable):
            rig.restore(path)

        assert_nothing_restored(rig)


@pytest.mark.parametrize("kept", [0, 5, 100, -1])
def test_a_file_that_was_cut_is_refused(rig: BackupRig, kept: int):
    path = rig.back_up()
    path.write_bytes(path.read_bytes()[:kept])

    with pytest.raises(BackupUnusable, match=r"damaged|not a backup"):
        rig.restore(path)

    assert_nothing_restored(rig)


def test_a_wrong_passphrase_opens_nothing(rig: BackupRig):
    path = rig.back_up(PASSPHRASE)

    with pytest.raises(BackupUnusable, match="the passphrase does not open"):
        rig.restore(path, "not the one that it was")

    assert_nothing_restored(rig)


@pytest.mark.parametrize(("name", "value"), [("FORMAT", 2), ("__version__", "999.0.0")])
def test_a_file_of_a_newer_version_is_refused_with_its_name(
    rig: BackupRig, monkeypatch: pytest.MonkeyPatch, name: str, value: object
):
    with monkeypatch.context() as newer:
        newer.setattr(backup_file, name, value)
        path = rig.back_up()

    with pytest.raises(BackupUnusable, match="newer than this one"):
        rig.restore(path)

    assert_nothing_restored(rig)


@pytest.mark.parametrize("head", [b"{}", b"?", b'{"format":1,"version":"0","at":5}'])
def test_a_header_that_says_nothing_is_refused(rig: BackupRig, head: bytes):
    path = rig.directory / "made-up"
    path.write_bytes(skipped(backup_file.MARK + head))

    with pytest.raises(BackupUnusable, match="its header cannot be read"):
        rig.restore(path)


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/../../out", "..", "."])
def test_a_name_that_leads_out_is_refused(rig: BackupRig, name: str):
    path = made_up(rig, member("fine"), member(name))

    with pytest.raises(BackupUnusable, match="lead out of the directory"):
        rig.restore(path)

    assert_nothing_restored(rig)
    assert not (rig.directory / "out").exists()


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]
)
def test_nothing_but_files_is_taken_from_a_backup(rig: BackupRig, kind: bytes):
    path = made_up(rig, member("audit", type=kind, linkname="/etc"), member("audit/passwd"))

    with pytest.raises(BackupUnusable, match="which is not a file"):
        rig.restore(path)

    assert_nothing_restored(rig)


@pytest.mark.parametrize("second", ["a", "a/b"])
def test_a_name_that_comes_twice_is_refused(rig: BackupRig, second: str):
    path = made_up(rig, member("a"), member(second))

    with pytest.raises(BackupUnusable, match="twice"):
        rig.restore(path)


def test_a_tar_that_is_none_is_refused_though_its_hash_fits(rig: BackupRig):
    path = rig.directory / "made-up"
    hashing = backup_file._Hashing(io.BytesIO())
    head = skipped(backup_file._header(AT, None)) + b"neither tar nor zstd"
    hashing.write(head)
    path.write_bytes(head + skipped(hashing.hash.digest()))

    with pytest.raises(BackupUnusable, match="is damaged"):
        rig.restore(path)

    assert_nothing_restored(rig)


def test_a_backup_without_facts_is_refused(rig: BackupRig):
    with pytest.raises(BackupUnusable, match="does not fit together"):
        rig.restore(made_up(rig, member("audit/x")))


def test_a_checkpoint_that_this_version_cannot_read_is_refused(rig: BackupRig):
    path = rebuilt(rig, lambda name, data: b"?" if name.startswith("checkpoints/") else data)

    with pytest.raises(BackupUnusable, match="restore it with the safetyd that made it"):
        rig.restore(path)

    assert_nothing_restored(rig)


def test_audit_files_that_were_changed_are_refused(rig: BackupRig):
    path = rebuilt(rig, lambda _name, data: data.replace(b'"agent":"code"', b'"agent":"evil"'))

    with pytest.raises(BackupUnusable, match="its hash does not fit"):
        rig.restore(path)


def test_parts_of_different_moments_are_refused(rig: BackupRig):
    def another(name: str, data: bytes) -> bytes:
        if not name.startswith("backup.json"):
            return data
        return data.replace(b'"seq":%d' % rig.engine.seq, b'"seq":1')

    path = rebuilt(rig, another)

    with pytest.raises(BackupUnusable, match="does not fit together: the audit files end with"):
        rig.restore(path)


def rebuilt(rig: BackupRig, change: Callable[[str, bytes], bytes]) -> Path:
    """The backup of this rig, with other content that has the right hash."""
    reader = backup_file.BackupReader(rig.back_up())
    path = rig.directory / "changed"
    with writing(path, AT, None) as tar:
        for found, content in reader.members(lambda _count: None):
            assert content is not None
            data = change(found.name, content.read())
            found.size = len(data)
            tar.addfile(found, io.BytesIO(data))
    return path


def test_a_file_is_not_written_over(rig: BackupRig):
    rig.back_up()

    with pytest.raises(FileExistsError, match="is there already: choose another name"):
        rig.back_up()
