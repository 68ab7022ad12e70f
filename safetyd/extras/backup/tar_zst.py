"""Writes and reads `.tar.zst` files, compatible with `tar --zstd`.

Python has Zstandard from 3.14 on; until then only this module uses the package `zstandard`.
"""

import importlib
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import IO, BinaryIO, Final, Protocol, cast

LEVEL: Final = 3
CHUNK_BYTES: Final = 1024 * 1024
NOT_INSTALLED: Final = "zstandard is not installed"
INSTALL: Final = "run `pip install 'safetyd[daemon]'`"


class Readable(Protocol):
    def read(self, count: int = -1, /) -> bytes: ...


class Writable(Protocol):
    def write(self, data: bytes, /) -> int: ...


class Damaged(Exception):
    """A file is not a compressed tar, or is damaged."""


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that appears at `path` once it is complete. Only its owner can read it."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    try:
        opened = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(opened, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
    finally:
        fresh.unlink(missing_ok=True)


@contextmanager
def tar_into(file: Writable) -> Iterator[tarfile.TarFile]:
    """Yield a tar that is compressed into `file`."""
    compressor = _zstandard().ZstdCompressor(level=LEVEL, write_checksum=True)
    with (
        compressor.stream_writer(cast("IO[bytes]", file), closefd=False) as writer,
        tarfile.open(fileobj=writer, mode="w|", bufsize=CHUNK_BYTES) as tar,
    ):
        yield tar


@contextmanager
def tar_from(file: Readable) -> Iterator[tarfile.TarFile]:
    """Yield the tar in `file`, to be read once; raises `Damaged` while reading."""
    zstandard = _zstandard()
    decompressor = zstandard.ZstdDecompressor()
    reader = decompressor.stream_reader(cast("IO[bytes]", file), read_across_frames=True)
    try:
        with tarfile.open(fileobj=reader, mode="r|") as tar:
            yield tar
    # Manipulated headers may also raise ValueError.
    except (tarfile.TarError, zstandard.ZstdError, ValueError) as exc:
        raise Damaged(str(exc)) from exc


def _zstandard() -> ModuleType:
    """Import the package when it is needed, to keep the start fast."""
    try:
        return importlib.import_module("zstandard")
    except ModuleNotFoundError as exc:
        raise OSError(f"{NOT_INSTALLED}: {INSTALL}") from exc
