"""Room for a stop that the journal cannot take: a file that is made while there is room.

When it is needed it is renamed, which takes no room, and the stop is written over its blanks. A
start finds it there. What cannot be read in it stops everything.
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
# How long the journal is waited for before the reserve is used.
JOURNAL_S: Final = 0.25
REASON_CHARS: Final = 200
LOST: Final = "given while nothing could be written; who and why is lost"

log = logging.getLogger("safetyd.reserve")

_decode = msgspec.json.Decoder(tuple[Stop, ...]).decode


class StopReserve:
    """The stops that the journal does not hold yet, where a restart finds them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._free = directory / FREE
        self._held = directory / HELD
        self._waiting: dict[int, tuple[Stop, Callable[[], None]]] = {}  # by epoch
        self._changed = anyio.Event()

    def prepare(self) -> None:
        """Make the file, unless it holds what an earlier daemon could not write down."""
        if not os.path.lexists(self._held):
            _overwrite(self._free, b"")

    def found(self) -> tuple[Stop, ...]:
        """Return what waits here from before the start."""
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
        """Hold a stop if the journal does not take it soon; `kept` is called once it is held."""
        self._waiting[stop.epoch] = stop, kept
        self._changed.set()

    def drop(self, epoch: int) -> None:
        """Let go of a stop that the journal holds now."""
        if self._waiting.pop(epoch, None):
            self._changed.set()

    async def keep(self) -> None:
        """Hold for ever what waits, from what was found at the start on."""
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
            log.error("the file in reserve for stops cannot be used: %s", exc)  # noqa: TRY400 - the cause is in the text
            return
        for _, kept in waiting:
            kept()

    def hold(self, stops: Sequence[Stop]) -> None:
        """Return once a power cut would not take these; without any, be free again."""
        if stops:
            self._take()
            try:
                _overwrite(self._held, _words(stops))
            except OSError:
                os.truncate(self._held, 0)  # words of earlier stops must not be taken for all
                sync(self._held)
        elif os.path.lexists(self._held):
            self._held.rename(self._free)
            _overwrite(self._free, b"")
        else:
            return
        sync(self._directory)

    def _take(self) -> None:
        """Rename the file; if somebody has removed it, there may be room for another."""
        try:
            self._free.rename(self._held)
        except FileNotFoundError:
            self._held.touch(mode=0o600)


def _words(stops: Sequence[Stop]) -> bytes:
    """Return what fits; nothing at all stops everything."""
    short = [msgspec.structs.replace(stop, reason=stop.reason[:REASON_CHARS]) for stop in stops]
    words = msgspec.json.encode(short)
    return words if len(words) <= SIZE_BYTES else b""


def _overwrite(path: Path, words: bytes) -> None:
    """Write over the blocks that a file has, and return once they are on disk."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        if os.pwrite(fd, words.ljust(SIZE_BYTES), 0) < SIZE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(fd)
    finally:
        os.close(fd)
