"""Restores a backup to a new data directory.

A backup is read twice: first completely, to check it, and then to write its files. The journal
starts empty after the checkpoint. Its batches are numbered from 1, and its event numbers continue
after those in the audit files.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from pathlib import Path, PurePosixPath
from tarfile import TarInfo
from typing import BinaryIO, Final, cast

import msgspec

from safetyd import __version__
from safetyd.extras.backup import age_encryption, history_stores, old_backups
from safetyd.extras.backup.age_encryption import BadKey, NotDecrypted
from safetyd.extras.backup.backup import (
    FACTS,
    KEYS,
    SETTINGS,
    SUMS,
    BackupFacts,
    Hashed,
    Progress,
    sums_text,
)
from safetyd.extras.backup.tar_zst import CHUNK_BYTES, Damaged, tar_from
from safetyd.journal.audit import BrokenAudit, verify
from safetyd.journal.checkpoints import Checkpoints, Unloadable, read, state_digest

_ZSTD: Final = b"\x28\xb5\x2f\xfd"


class BackupUnusable(Exception):
    """A file is not a backup, is damaged, or is from a newer version. The text says which."""


class NotEmpty(Exception):
    """The target of a restore is not empty."""


class _Version(msgspec.Struct):
    """The fields of `backup.json` that every version has."""

    version: str = ""


class Restoring:
    """A checked backup, and its target directory.

    `passphrase` is called if the backup needs one; `identity` is a file with age secret keys.
    """

    def __init__(
        self, file: Path, into: Path, passphrase: Callable[[], str], identity: Path | None = None
    ) -> None:
        _check_free(into)
        self._file = file
        self._into = into
        self._facts: BackupFacts | None = None
        self._encrypted = True  # safetyd writes keys only to encrypted backups
        self.size = 0  # the size of the compressed tar
        with self._refusing():
            with file.open("rb") as opened:
                start = opened.read(64)
            self._old = old_backups.is_old(start)
            self._open = self._opener(start, passphrase, identity)
            for _ in self._files(self._measure):
                pass

    def run(self, progress: Progress) -> BackupFacts:
        """Restore atomically; raises `BackupUnusable` or OSError."""
        self._into.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{self._into.name}.", dir=self._into.parent))
        try:
            with self._refusing():
                for path, content in self._files(progress):
                    _write(fresh / path, content)
            assert self._facts is not None  # noqa: S101 - the first file of a backup
            _check(fresh, self._facts)
            history_stores.complete(fresh)
            fresh.rename(self._into)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        return self._facts

    def _measure(self, count: int) -> None:
        self.size += count

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except Damaged as exc:
            raise BackupUnusable(f"{self._file} is damaged: {exc}") from exc
        except (BadKey, NotDecrypted) as exc:
            raise BackupUnusable(str(exc)) from exc

    def _opener(
        self, start: bytes, passphrase: Callable[[], str], identity: Path | None
    ) -> Callable[[], AbstractContextManager[BinaryIO]]:
        """Return a function that opens the compressed tar in the file."""
        file = self._file
        if start.startswith(_ZSTD):
            self._encrypted = False
            return lambda: file.open("rb")
        if self._old:
            content = old_backups.decoded(file, passphrase)
            return lambda: BytesIO(content)
        if age_encryption.needs_passphrase(start):
            content = age_encryption.decrypted(file, passphrase())
            return lambda: BytesIO(content)
        if not start.startswith(age_encryption.MARK):
            raise BackupUnusable(f"{file} is not a safetyd backup")
        if identity is None:
            raise BackupUnusable(f"{file} is encrypted for a recipient; use --identity")
        return lambda: age_encryption.decrypting(file, identity)

    def _files(self, progress: Progress) -> Iterator[tuple[PurePosixPath, Hashed]]:
        """Yield every file; raise if any is missing or has a wrong checksum."""
        sums: dict[str, str] = {}
        facts: BackupFacts | None = None
        said = b""
        places = _Places()
        with self._open() as file:
            compressed = Hashed(file, progress)
            with tar_from(compressed) as tar:
                for member in tar:
                    path = places.find(member)
                    content = Hashed(cast("BinaryIO", tar.extractfile(member)))
                    if member.name == SUMS:
                        said = content.read(len(sums_text(sums)) + 1)
                        continue
                    if facts is None:
                        facts = self._read_facts(member.name, content.read(CHUNK_BYTES))
                    else:
                        _check_stated(path, facts)
                        yield path, content
                    content.finish()
                    sums[member.name] = content.sum
            compressed.finish()
        if not sums:
            raise BackupUnusable(f"{self._file} is not a safetyd backup")
        if not self._old and said != sums_text(sums):
            raise Damaged("files are missing, or have wrong checksums")
        self._facts = facts

    def _read_facts(self, name: str, content: bytes) -> BackupFacts:
        if name != FACTS:
            raise BackupUnusable(f"{self._file} is not a safetyd backup")
        try:
            version = msgspec.json.decode(content, type=_Version).version
            if _number(version) > _number(__version__):
                raise BackupUnusable(
                    f"{self._file} was written by safetyd {version}, which is newer than this one "
                    f"({__version__}); restore it with that version"
                )
            facts = msgspec.json.decode(content, type=BackupFacts)
        except msgspec.DecodeError as exc:
            raise Damaged(f"cannot read {FACTS}: {exc}") from exc
        if facts.keys and not self._encrypted:
            raise BackupUnusable(
                f"{self._file} has keys but is not encrypted, so anyone may have added them"
            )
        return facts


class _Places:
    """Checks the paths of a backup: each must be unique and inside the directory."""

    def __init__(self) -> None:
        self._files: set[PurePosixPath] = set()
        self._taken: set[PurePosixPath] = set()  # files, and their folders

    def find(self, member: TarInfo) -> PurePosixPath:
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in member.name:
            raise BackupUnusable(f"it contains {member.name!r}, which is outside of the directory")
        if not member.isfile():
            raise BackupUnusable(f"it contains {member.name!r}, which is not a file")
        if path in self._taken or any(above in self._files for above in path.parents):
            raise BackupUnusable(f"it contains {member.name!r} twice")
        self._files.add(path)
        self._taken.update((path, *path.parents))
        return path


def _check_stated(path: PurePosixPath, facts: BackupFacts) -> None:
    """Reject a file of a kind that the backup says it does not have."""
    stated = {KEYS: facts.keys, SETTINGS: facts.settings, history_stores.DIRECTORY: facts.history}
    if not stated.get(path.parts[0], True):
        raise BackupUnusable(f"it contains {str(path)!r}, although {FACTS} says that it does not")


def _check_free(into: Path) -> None:
    if into.is_symlink() or (into.exists() and not into.is_dir()):
        raise NotEmpty(f"{into} is not a directory; choose another")
    if into.is_dir() and any(into.iterdir()):
        raise NotEmpty(f"{into} is not empty; choose a new directory")


def _write(path: Path, content: Hashed) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(opened, "wb") as file:
        shutil.copyfileobj(content, file)
        file.flush()
        os.fsync(file.fileno())


def _check(fresh: Path, facts: BackupFacts) -> None:
    """Reject an inconsistent backup. Prepare the journal to start after the checkpoint."""
    try:
        found = verify(fresh / "audit")
    except BrokenAudit as exc:
        raise BackupUnusable(f"it is inconsistent: {exc}") from exc
    checkpoints = Checkpoints(fresh / "checkpoints")
    try:
        (saved,) = map(read, checkpoints.paths())
    except (Unloadable, ValueError) as exc:
        raise BackupUnusable(
            f"its checkpoint cannot be used ({exc}); restore it with the version that made it"
        ) from exc
    said = (facts.seq, facts.head, facts.state)
    if said != (found.last_seq, found.last_hash, state_digest(saved.engine)):
        raise BackupUnusable(
            f"it is inconsistent: the audit files end with event {found.last_seq}, "
            f"the checkpoint with {saved.engine.seq}"
        )
    checkpoints.write(msgspec.structs.replace(saved, stream_seq=0))


def _number(version: str) -> list[int]:
    """Return a version in a comparable form: 0.10.1 comes after 0.9."""
    return [int(part) for part in re.findall(r"\d+", version)[:3]]
