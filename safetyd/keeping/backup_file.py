"""The file of a backup: a header, a compressed tar, and a hash of both.

Header and hash are frames that readers of Zstandard skip, so `tar --zstd` reads a backup without
keys. One with keys is encrypted between the two.
"""

import hashlib
import os
import re
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, BinaryIO, Final, Protocol, cast

import msgspec

from safetyd import __version__
from safetyd.keeping.encryption import (
    TAG_BYTES,
    Decrypting,
    Encrypting,
    Sealing,
    WrongPassphrase,
    derived_key,
    fresh_sealing,
)
from safetyd.keeping.zstd_files import (
    Decompressing,
    NoFrame,
    NotCompressed,
    compressing,
    read_skipped,
    skipped,
)

FORMAT: Final = 1
CHUNK_BYTES: Final = 1024 * 1024
MARK: Final = b"safetyd backup\n"

_END_BYTES: Final = len(skipped(bytes(32)))

Progress = Callable[[int], None]  # hears of so many more bytes


class BackupUnusable(Exception):
    """A file is no backup, is damaged, or is of a newer version; the text says which."""


class BackupHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What stands in the clear at the beginning."""

    format: int
    version: str  # of safetyd
    at: datetime
    sealing: Sealing | None = None  # of a backup that needs a passphrase


class _Format(msgspec.Struct):
    """As much of a header as every version has."""

    format: int
    version: str


class _Writes(Protocol):
    def write(self, data: bytes, /) -> int: ...


class _Hashing:
    """A file that is written to and hashed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.hash = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        return self._file.write(data)


class _Part:
    """Some bytes of a file, to be read once."""

    def __init__(self, file: BinaryIO, size: int, progress: Progress) -> None:
        self._file = file
        self._left = max(0, size)
        self._progress = progress

    def read(self, count: int = -1) -> bytes:
        count = self._left if count < 0 else min(count, self._left)
        data = self._file.read(count)
        self._left -= len(data)
        self._progress(len(data))
        return data


@contextmanager
def writing(path: Path, at: datetime, passphrase: str | None) -> Iterator[tarfile.TarFile]:
    """Give a tar to fill; the file is there when it is whole, and then its owner can read it."""
    if os.path.lexists(path):
        raise FileExistsError(f"{path} is there already: choose another name")
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    try:
        opened = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(opened, "wb") as file:
            hashing = _Hashing(file)
            sealing = fresh_sealing() if passphrase else None
            header = _header(at, sealing)
            hashing.write(skipped(header))
            with _body(hashing, header, sealing, passphrase) as body, _tar(body) as tar:
                yield tar
            file.write(skipped(hashing.hash.digest()))
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
    finally:
        fresh.unlink(missing_ok=True)


def _header(at: datetime, sealing: Sealing | None) -> bytes:
    header = BackupHeader(format=FORMAT, version=__version__, at=at, sealing=sealing)
    return MARK + msgspec.json.encode(header)


@contextmanager
def _body(
    file: _Hashing, header: bytes, sealing: Sealing | None, passphrase: str | None
) -> Iterator[_Writes]:
    if sealing is None or passphrase is None:
        yield file
        return
    key = derived_key(passphrase, sealing)
    encrypting = Encrypting(cast("BinaryIO", file), key, sealing, header)
    yield encrypting
    encrypting.finish()


@contextmanager
def _tar(body: _Writes) -> Iterator[tarfile.TarFile]:
    with (
        compressing(cast("BinaryIO", body)) as writer,
        tarfile.open(fileobj=cast("IO[bytes]", writer), mode="w|", bufsize=CHUNK_BYTES) as tar,
    ):
        yield tar


class BackupReader:
    """A backup to read from: whole, to the last bit, or `BackupUnusable` is raised."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key = b""
        with path.open("rb") as file:
            self._head = _read_head(path, file)
            self._begin = file.tell()
        self.header = _read_header(path, self._head)
        self.size = path.stat().st_size - self._begin - _END_BYTES
        self._check_hash()

    def unlock(self, passphrase: str) -> None:
        """Take the passphrase of an encrypted one."""
        if self.header.sealing is None:
            return
        self._key = derived_key(passphrase, self.header.sealing)
        with self._path.open("rb") as file:
            plain = self._opened(file, _ignore)
            while plain.read(CHUNK_BYTES):
                pass
            try:
                cast("Decrypting", plain).finish(file.read(TAG_BYTES))
            except WrongPassphrase:
                raise BackupUnusable(f"the passphrase does not open {self._path}") from None

    def members(self, progress: Progress) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
        """Yield what is in it, each with its content if it is a file."""
        with self._path.open("rb") as file:
            reader = Decompressing(cast("BinaryIO", self._opened(file, progress)))
            try:
                with tarfile.open(fileobj=cast("IO[bytes]", reader), mode="r|") as tar:
                    for member in tar:
                        yield member, tar.extractfile(member) if member.isfile() else None
            except (tarfile.TarError, NotCompressed) as exc:
                raise BackupUnusable(f"{self._path} is damaged: {exc}") from exc

    def _check_hash(self) -> None:
        hashed = hashlib.sha256(skipped(self._head))
        with self._path.open("rb") as file:
            file.seek(self._begin)
            body = _Part(file, self.size, _ignore)
            while data := body.read(CHUNK_BYTES):
                hashed.update(data)
            try:
                said = read_skipped(file)
            except NoFrame:
                said = b""
        if said != hashed.digest():
            raise BackupUnusable(f"{self._path} is damaged: its hash does not fit its content")

    def _opened(self, file: BinaryIO, progress: Progress) -> Decrypting | _Part:
        file.seek(self._begin)
        sealing = self.header.sealing
        part = _Part(file, self.size - (TAG_BYTES if sealing else 0), progress)
        if sealing is None:
            return part
        return Decrypting(cast("BinaryIO", part), self._key, sealing, self._head)


def _ignore(_count: int) -> None: ...


def _read_head(path: Path, file: BinaryIO) -> bytes:
    try:
        head = read_skipped(file)
    except NoFrame:
        head = b""
    if not head.startswith(MARK):
        raise BackupUnusable(f"{path} is not a backup of safetyd's")
    return head


def _read_header(path: Path, head: bytes) -> BackupHeader:
    said = head.removeprefix(MARK)
    try:
        found = msgspec.json.decode(said, type=_Format)
        if found.format > FORMAT or _number(found.version) > _number(__version__):
            raise BackupUnusable(
                f"{path} was written by safetyd {found.version}, which is newer than this one "
                f"({__version__}): restore it with that"
            )
        return msgspec.json.decode(said, type=BackupHeader)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise BackupUnusable(f"{path} is damaged: its header cannot be read: {exc}") from exc


def _number(version: str) -> list[int]:
    """Return a version in a form that can be compared: 0.10.1 comes after 0.9."""
    return [int(part) for part in re.findall(r"\d+", version)[:3]]
