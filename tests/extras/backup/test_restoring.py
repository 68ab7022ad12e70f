import hashlib
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree

import pyrage
import pytest
import zstandard

from safetyd.extras.backup import age_encryption, backup
from safetyd.extras.backup.restoring import BackupUnusable, NotEmpty, Restoring
from tests.extras.backup.backup_rig import PASSPHRASE, BackupRig, ignored


@pytest.fixture
def rig(tmp_path: Path) -> BackupRig:
    return BackupRig(tmp_path)


def files(directory: Path) -> dict[str, bytes]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


def unpacked(path: Path) -> dict[str, bytes]:
    """What is in a backup, read without safetyd."""
    plain = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        contents = {member.name: tar.extractfile(member) for member in tar}
        return {name: file.read() for name, file in contents.items() if file is not None}


def packed(rig: BackupRig, *members: tarfile.TarInfo | tuple[str, bytes]) -> Path:
    """A tar.zst with these members, and checksums that fit."""
    plain, sums = io.BytesIO(), b""
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for each in members:
            info, data = (
                (each, b"") if isinstance(each, tarfile.TarInfo) else (member(each[0]), each[1])
            )
            info.size = len(data)
            sums += b"%s  %s\n" % (hashlib.sha256(data).hexdigest().encode(), info.name.encode())
            tar.addfile(info, io.BytesIO(data))
        last = member("SHA256SUMS")
        last.size = len(sums)
        tar.addfile(last, io.BytesIO(sums))
    path = rig.directory / "packed"
    path.write_bytes(zstandard.compress(plain.getvalue()))
    return path


def rebuilt(rig: BackupRig, change: Callable[[str, bytes], bytes | None]) -> Path:
    """The backup of this rig with other content; None leaves a file out."""
    changed = ((name, change(name, data)) for name, data in unpacked(rig.back_up()).items())
    kept = ((name, data) for name, data in changed if name != "SHA256SUMS" and data is not None)
    return packed(rig, *kept)


def member(name: str, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname = kind, "/etc" if kind != tarfile.REGTYPE else ""
    return found


def assert_refused(rig: BackupRig, path: Path, why: str, **given: object) -> None:
    with pytest.raises(BackupUnusable, match=why):
        rig.restore(path, **given)  # type: ignore[arg-type]
    assert_nothing_restored(rig)


def assert_nothing_restored(rig: BackupRig) -> None:
    assert not rig.restored.exists()
    assert [path.name for path in rig.directory.iterdir() if path.name.startswith(".")] == []


def identity_file(rig: BackupRig, name: str = "identity.txt") -> tuple[Path, str]:
    identity = pyrage.x25519.Identity.generate()
    path = rig.directory / name
    path.write_text(f"# created: today\n# public key: {identity.to_public()}\n{identity}\n")
    return path, str(identity.to_public())


def test_only_a_new_or_empty_directory_is_filled(rig: BackupRig):
    path = rig.back_up()
    rig.restored.mkdir()
    rig.restore(path)
    rig.restore(path, into="a/b/c")
    assert files(rig.directory / "a/b/c") == files(rig.restored) != {}

    (rig.directory / "link").symlink_to(rig.directory / "nowhere")
    for into, why in (("restored", "is not empty"), ("backup", "not a dir"), ("link", "not a dir")):
        with pytest.raises(NotEmpty, match=why):
            rig.restore(path, into=into)


@pytest.mark.parametrize("encrypted", [False, True])
def test_progress_adds_up_to_the_size(rig: BackupRig, *, encrypted: bool):
    identity, recipient = identity_file(rig)
    path = rig.back_up(recipients=[recipient] if encrypted else [])
    restoring = Restoring(path, rig.restored, str, identity)
    heard: list[int] = []

    restoring.run(heard.append)

    assert sum(heard) == restoring.size > 0


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_damaged_file_is_refused_wherever_the_damage_is(rig: BackupRig, *, encrypted: bool):
    """All is unharmed, and restored, if only Zstandard's window or checksum is damaged."""
    identity, recipient = identity_file(rig)
    path = rig.back_up(recipients=[recipient] if encrypted else [])
    whole, unharmed = path.read_bytes(), rig.directory / "unharmed"
    rig.restore(path, identity=identity, into=unharmed.name)
    size = len(whole)
    for place in sorted({*range(0, size, size // 40), 1, 5, 25, size - 5, size - 4, size - 1}):
        changed = whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :]
        for damaged in (whole[:place], changed):
            path.write_bytes(damaged)
            try:
                rig.restore(path, identity=identity)
            except BackupUnusable:
                assert_nothing_restored(rig)
            else:
                assert not encrypted
                assert place == 5 or place >= size - 4
                assert files(rig.restored) == files(unharmed)
                rmtree(rig.restored)


def test_an_encrypted_backup_is_opened_by_its_own_key_alone(rig: BackupRig):
    rig.write("keys/operator.nk", "SUSECRETSEED")
    identity, recipient = identity_file(rig)
    other, _ = identity_file(rig, "other.txt")
    path = rig.back_up(recipients=[recipient])

    assert_refused(rig, path, "cannot decrypt", identity=other)
    assert_refused(rig, path, "use --identity")
    for content in (b"AGE-SECRET-KEY-1\n", b"\xff\n"):
        other.write_bytes(content)
        assert_refused(rig, path, "not an age identity", identity=other)
    assert rig.restore(path, identity=identity).keys
    assert (rig.restored / "keys/operator.nk").read_text() == "SUSECRETSEED"

    path = rig.back_up(PASSPHRASE)
    with pytest.raises(BackupUnusable, match="wrong passphrase"):
        rig.restore(path, "not the one that it was", into="second")
    rig.restore(path, into="second")
    assert files(rig.directory / "second") == files(rig.restored)


def test_a_backup_of_a_newer_version_is_refused_with_its_name(
    rig: BackupRig, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as newer:
        newer.setattr(backup, "__version__", "999.0.0")
        path = rig.back_up()

    assert_refused(rig, path, r"written by safetyd 999\.0\.0, which is newer than this one")


@pytest.mark.parametrize(
    ("hostile", "why"),
    [
        *((member(name), "outside") for name in ("../out", "/tmp/out", "a/../../out", "..", ".")),
        *(
            (member("a", kind), "not a file")
            for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE)
        ),
        *(
            (member(name), "twice")
            for name in ("audit/audit-00000001.jsonl", "audit", "audit/audit-00000001.jsonl/b")
        ),
    ],
    ids=lambda value: value.name if isinstance(value, tarfile.TarInfo) else value,
)
def test_a_member_that_no_backup_has_is_refused(rig: BackupRig, hostile: tarfile.TarInfo, why: str):
    ours = [(name, data) for name, data in unpacked(rig.back_up()).items() if name != "SHA256SUMS"]
    before = files(rig.directory)

    assert_refused(rig, packed(rig, *ours, hostile), why)

    assert {name: data for name, data in files(rig.directory).items() if name != "packed"} == before


@pytest.mark.parametrize(
    "added", ["keys/operators/mallory.pub", "safetyd.toml", "history/shop/shop-shadow.git/config"]
)
def test_a_file_that_the_backup_says_it_does_not_have_is_refused(rig: BackupRig, added: str):
    members = [*unpacked(rig.back_up()).items(), (added, b"UABC\n")]

    path = packed(rig, *(each for each in members if each[0] != "SHA256SUMS"))

    assert_refused(rig, path, f"contains '{added}', although backup.json says that it does not")


def test_keys_in_a_backup_that_is_not_encrypted_are_refused(rig: BackupRig):
    def with_keys(name: str, data: bytes) -> bytes:
        return data.replace(b'"keys":false', b'"keys":true') if name == "backup.json" else data

    path = rebuilt(rig, with_keys)

    assert_refused(rig, path, "has keys but is not encrypted")


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("checkpoints/", lambda _: b"?", "restore it with the version that made it"),
        ("checkpoints/", lambda _: None, "restore it with the version that made it"),
        ("audit/", lambda data: data.replace(b'"code"', b'"evil"'), "inconsistent"),
        (
            "backup.json",
            lambda data: data.replace(b'"seq":', b'"seq":1'),
            "the audit files end with",
        ),
        ("backup.json", lambda _: b"{}", "cannot read backup.json"),
        ("backup.json", lambda _: None, "not a safetyd backup"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused_though_their_checksums_fit(
    rig: BackupRig, name: str, change: Callable[[bytes], bytes | None], why: str
):
    path = rebuilt(rig, lambda found, data: change(data) if found.startswith(name) else data)

    assert_refused(rig, path, why)


def test_a_file_that_is_left_out_is_missed(rig: BackupRig):
    content = unpacked(rig.back_up())
    content.pop("transcripts/.written")
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, data in content.items():
            info = member(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    path = rig.directory / "less"
    path.write_bytes(zstandard.compress(plain.getvalue()))

    assert_refused(rig, path, "is damaged: files are missing")


def test_an_encrypted_backup_that_holds_more_is_refused_before_it_is_read_to_its_end(
    rig: BackupRig,
):
    identity, recipient = identity_file(rig)
    ours = [(name, data) for name, data in unpacked(rig.back_up()).items() if name != "SHA256SUMS"]
    hostile = packed(rig, ours[0], ("../out", b""), ("large", os.urandom(10_000_000)))
    key = pyrage.x25519.Recipient.from_str(recipient)
    hostile.write_bytes(pyrage.encrypt(hostile.read_bytes(), [key]))

    assert_refused(rig, hostile, "outside", identity=identity)


def test_other_files_are_no_backups(rig: BackupRig):
    path = rig.directory / "other"
    for content in (b"", b"photo", zstandard.compress(b""), zstandard.compress(b"photo" * 1000)):
        path.write_bytes(content)
        assert_refused(rig, path, "not a safetyd backup|damaged")


def test_what_a_passphrase_cannot_encrypt_in_memory_is_refused(
    rig: BackupRig, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(age_encryption, "MAX_BYTES", 1000)

    with pytest.raises(OSError, match="use --recipient instead"):
        rig.back_up(PASSPHRASE)

    assert not (rig.directory / "backup").exists()


def test_a_disk_that_fills_while_a_file_is_encrypted_is_the_reason():
    class Full(io.BytesIO):
        def write(self, _data: object) -> int:
            raise OSError(28, "No space left on device")

    recipient = str(pyrage.x25519.Identity.generate().to_public())
    with (
        pytest.raises(OSError, match="No space left"),
        age_encryption.encrypting(Full(), "", [recipient]) as plain,
    ):
        plain.write(bytes(10_000_000))


def test_a_file_is_not_written_over(rig: BackupRig):
    path = rig.directory / "backup"
    path.write_text("mine")

    with pytest.raises(FileExistsError, match="already exists"):
        rig.prepared().write(path, ignored)

    assert path.read_text() == "mine"
