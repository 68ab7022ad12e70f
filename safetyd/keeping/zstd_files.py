"""Zstandard, and frames in it that its readers skip: who reads a file with `zstd` sees no more.

Python itself has Zstandard from 3.14 on; until that is the oldest one, the package is used here
and nowhere else.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final, cast

LEVEL: Final = 3
MAX_SKIPPED: Final = 64 * 1024

_MAGIC: Final = 0x184D2A5A
_HEAD: Final = struct.Struct("<II")


class NoFrame(Exception):
    """There is no frame of ours where one should be."""


class NotCompressed(Exception):
    """What is read is not Zstandard, or is damaged."""


def skipped(content: bytes) -> bytes:
    """Return a frame that readers of Zstandard skip."""
    return _HEAD.pack(_MAGIC, len(content)) + content


def read_skipped(file: BinaryIO) -> bytes:
    """Return the content of such a frame; raises `NoFrame`."""
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        raise NoFrame
    magic, size = _HEAD.unpack(head)
    if magic != _MAGIC or size > MAX_SKIPPED:
        raise NoFrame
    content = file.read(size)
    if len(content) < size:
        raise NoFrame
    return content


@contextmanager
def compressing(file: BinaryIO) -> Iterator[BinaryIO]:
    """Give a file to write to; what is written is compressed into `file`, which stays open."""
    import zstandard  # noqa: PLC0415 - a daemon that takes no snapshots need not wait for it

    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
    with compressor.stream_writer(file, closefd=False) as writer:
        yield cast("BinaryIO", writer)


class Decompressing:
    """A file to read from, which has what is compressed in another."""

    def __init__(self, file: BinaryIO) -> None:
        import zstandard  # noqa: PLC0415 - see above

        self._error = zstandard.ZstdError
        self._reader = zstandard.ZstdDecompressor().stream_reader(
            file, read_across_frames=True, closefd=False
        )

    def read(self, count: int = -1) -> bytes:
        try:
            return self._reader.read(count)
        except self._error as exc:
            raise NotCompressed(str(exc)) from exc
