"""A reserve file that stores stops when the journal cannot be written.

The file is created while there is disk space. To store a stop, it is renamed and overwritten, which
takes no more space. The daemon reads it at the next start. If it cannot be parsed, everything is
stopped.
"""

import errno
import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from safetyd.core.guards.stop import Stop
from safetyd.host import sync

FREE: Final = "stop.reserve"
HELD: Final = "stop.unwritten"
SIZE_BYTES: Final = 16 * 1024
# How long to wait for the journal before the reserve is used.
JOURNAL_S: Final = 0.25
REASON_CHARS: Final = 200
LOST: Final = "stopped while nothing could be written; author and reason are lost"

log = logging.getLogger("safetyd.reserve")

_decode = msgspec.json.Decoder(tuple[Stop, ...]).decode


class StopReserve:
    """Stores stops that are not in the journal yet, so that they survive a restart."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._free = directory / FREE
        self._held = directory / HELD
        self._waiting: dict[int, tuple[Stop, Callable[[], None]]] = {}  # by epoch
        self._changed = anyio.Event()
        self._read = False

    def prepare(self) -> None:
        """Create the reserve file, unless it contains stops from before the start."""
        if not os.path.lexists(self._held):
            _overwrite(self._free, b"")

    def found(self) -> tuple[Stop, ...]:
        """Return the stops that were stored before the start."""
        self._read = True
        try:
            content = self._held.read_bytes()
        except FileNotFoundError:
            return ()
        with suppress(msgspec.DecodeError):
            if stops := _decode(content.strip()):
                return stops
        since = datetime.fromtimestamp(self._held.stat().st_mtime, UTC)
        return (
            Stop(
                source="operator",
                by="unknown",
                reason=LOST,
                since=since,
                agent=None,
                epoch=sys.maxsize,
            ),
        )

    def add(self, stop: Stop, kept: Callable[[], None]) -> None:
        """Store a stop, unless the journal records it soon. Call `kept` when it is stored."""
        self._waiting[stop.epoch] = stop, kept
        self._changed.set()

    def drop(self, epoch: int) -> None:
        """Remove a stop that is in the journal now."""
        if self._waiting.pop(epoch, None):
            self._changed.set()

    def flush(self) -> None:
        """Write the added stops to the file immediately, and forget them: they are read again.

        Stops that were stored before the start are removed only after they were read.
        """
        if self._waiting or self._read:
            self.hold([stop for stop, _ in self._waiting.values()])
            self._waiting.clear()

    async def keep(self) -> None:
        """Write the added stops to the file and remove the dropped ones, forever."""
        while True:
            self._changed = anyio.Event()
            await self._settle()
            await self._changed.wait()
            await anyio.sleep(JOURNAL_S)

    async def _settle(self) -> None:
        waiting = tuple(self._waiting.values())
        try:
            await anyio.to_thread.run_sync(self.hold, [stop for stop, _ in waiting])
        except OSError as exc:
            log.error("cannot use the reserve file for stops: %s", exc)  # noqa: TRY400 - the cause is in the text
            return
        for _, kept in waiting:
            kept()

    def hold(self, stops: Sequence[Stop]) -> None:
        """Store these stops on disk. If there are none, turn the file back into a reserve."""
        if stops:
            self._take()
            try:
                _overwrite(self._held, _words(stops))
            except OSError:
                os.truncate(self._held, 0)  # an empty file stops everything
                sync(self._held)
        elif os.path.lexists(self._held):
            self._held.rename(self._free)
            _overwrite(self._free, b"")
        else:
            return
        sync(self._directory)

    def _take(self) -> None:
        """Rename the file, or create it if it was removed."""
        try:
            self._free.rename(self._held)
        except FileNotFoundError:
            self._held.touch(mode=0o600)


def _words(stops: Sequence[Stop]) -> bytes:
    """Return the stops as JSON. If they do not fit, return b"": an empty file stops everything."""
    short = [msgspec.structs.replace(stop, reason=stop.reason[:REASON_CHARS]) for stop in stops]
    words = msgspec.json.encode(short)
    return words if len(words) <= SIZE_BYTES else b""


def _overwrite(path: Path, words: bytes) -> None:
    """Overwrite the existing blocks of a file, and return once they are on disk."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        if os.pwrite(fd, words.ljust(SIZE_BYTES), 0) < SIZE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(fd)
    finally:
        os.close(fd)
