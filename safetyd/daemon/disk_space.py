"""Checks how full the disk of the data directory is, and how much of it safetyd uses.

The checks run in another thread, because disk access may be slow.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import anyio
import anyio.to_thread
import msgspec
from msgspec import Meta

from safetyd.clock import uptime
from safetyd.core.events.daemon_events import DiskLevel, DiskMoved, DiskUse
from safetyd.core.events.disk_words import MAKE_ROOM, filling, fullness
from safetyd.core.events.event import Event, Moment
from safetyd.host import START_BYTES, START_FILES, Room, Spare, room

LOOK_S: Final = 1.0
MEASURE_S: Final = 300.0  # measured rarely, because there may be many files
SAMPLE_S: Final = 60.0
SAMPLES: Final = 61  # one hour
KNOWN_S: Final = 600.0  # minimum time to estimate the growth of audit files
# To return to a better level, the disk needs 10 % more free space than the threshold.
HYSTERESIS: Final = 1.1
MIB: Final = 1024**2
GIB: Final = 1024**3
BLOCK_BYTES: Final = 512  # the unit of st_blocks on every file system

PARTS: Final = {
    "nats": "journal",
    "audit": "audit",
    "transcripts": "transcripts",
    "checkpoints": "checkpoints",
    "snapshots": "snapshots",
    "archives": "archives",
    "history": "history",
    "reports": "reports",
}
OTHER: Final = "other"
LEVELS: Final[tuple[DiskLevel, ...]] = ("good", "warn", "critical")

Percent = Annotated[int, Meta(ge=1, le=100)]
Bytes = Annotated[int, Meta(ge=0, le=1024**5)]


class DiskConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    warn_percent: Percent = 85
    critical_percent: Percent = 95
    warn_free_bytes: Bytes = GIB
    critical_free_bytes: Bytes = 256 * MIB


class Wanted(NamedTuple):
    """The free space that a disk needs to stay out of a level."""

    bytes: float
    files: float

    def has(self, found: Room) -> bool:
        return found.bytes >= self.bytes and found.files >= self.files


def wanted(config: DiskConfig, found: Room, level: DiskLevel) -> Wanted:
    """Return the free space that a disk needs to stay out of a level.

    It is a share of the disk, with an upper limit for large disks and a lower limit for small ones.
    It is never less than the daemon needs to start.
    """
    if level == "critical":
        percent, least, ample, files = config.critical_percent, config.critical_free_bytes, 5, 1000
    else:
        percent, least, ample, files = config.warn_percent, config.warn_free_bytes, 20, 10_000
    share = (100 - percent) / 100
    bytes_ = share * found.total_bytes
    return Wanted(
        max(min(bytes_, ample * GIB), min(least, 2 * bytes_), START_BYTES),
        max(min(share * found.total_files, files), START_FILES) if found.total_files else 0,
    )


def spare(config: DiskConfig, directory: Path) -> Spare:
    """Return how much may be written to a directory before its disk is nearly full.

    The remaining space is reserved for the journal and the audit files.
    """
    found = room(directory)
    reserve = wanted(config, found, "critical")
    return Spare(found.bytes - reserve.bytes, found.files - reserve.files)


def judge(config: DiskConfig, found: Room, before: DiskLevel) -> DiskLevel:
    """Return the level of a disk that was at level `before`."""
    now = _level(config, found, 1.0)
    if LEVELS.index(now) >= LEVELS.index(before):
        return now
    return min(before, _level(config, found, HYSTERESIS), key=LEVELS.index)


def _level(config: DiskConfig, found: Room, times: float) -> DiskLevel:
    for level in reversed(LEVELS[1:]):
        need = wanted(config, found, level)
        if not Wanted(need.bytes * times, need.files * times).has(found):
            return level
    return "good"


def measured(data_dir: Path) -> dict[str, int]:
    """Return the size on disk of each part of the data directory."""
    sizes = dict.fromkeys((*PARTS.values(), OTHER), 0)
    linked: set[int] = set()  # snapshots share unchanged files
    for path, found in _files(str(data_dir)):
        if found.st_nlink > 1:
            if found.st_ino in linked:
                continue
            linked.add(found.st_ino)
        top = Path(path).relative_to(data_dir).parts[0]
        sizes[PARTS.get(top, OTHER)] += found.st_blocks * BLOCK_BYTES
    return sizes


def _files(directory: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield all files in a directory. Files that disappear in the meantime are skipped."""
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    yield from _files(entry.path)
                else:
                    yield entry.path, entry.stat(follow_symlinks=False)


class DiskSpace:
    """Checks the disk regularly, and records an event when the level changes.

    `use` is the latest result, and `known` the last recorded level. `written` returns how many
    bytes were written to audit files since the start.
    """

    def __init__(
        self,
        data_dir: Path,
        config: Callable[[], DiskConfig],
        written: Callable[[], int],
        put: Callable[[Callable[[Moment], Event]], None],
        *,
        known: DiskLevel,
        now: Callable[[], float] = uptime,
    ) -> None:
        self._data_dir = data_dir
        self._config = config
        self._written = written
        self._now = now
        self._samples: deque[tuple[float, int]] = deque(maxlen=SAMPLES)
        self._parts: dict[str, int] = {}
        self._measured_at: float | None = None
        self._put = put
        self._known = known
        self.use = self._seen(room(data_dir), known)

    async def run(self) -> None:
        while True:
            await self.look()
            await anyio.sleep(LOOK_S)

    async def look(self, *, measure: bool = False) -> DiskUse:
        """Check the disk and return its use. If that fails, return the previous result.

        The size of the data directory is measured only every few minutes, unless `measure` is set.
        """
        self._sample()
        with suppress(OSError):
            found = await anyio.to_thread.run_sync(room, self._data_dir)
            self.use = self._seen(found, self.use.level)
            if measure or self._is_due():
                self._measured_at = self._now()
                self._parts = await anyio.to_thread.run_sync(measured, self._data_dir)
                self.use = msgspec.structs.replace(self.use, parts=self._parts)
        self._tell()
        return self.use

    @property
    def problem(self) -> str:
        """Return a description if the disk is full, or an empty string."""
        use = self.use
        files = START_FILES if use.free_files is None else use.free_files
        if use.free_bytes >= START_BYTES and files >= START_FILES:
            return ""
        return "; ".join(filter(None, (fullness(use), filling(use), MAKE_ROOM)))

    def _is_due(self) -> bool:
        """Return True if the data directory must be measured: regularly, and before an event."""
        at = self._measured_at
        return at is None or self.use.level != self._known or self._now() - at >= MEASURE_S

    def _tell(self) -> None:
        if self.use.level != self._known:
            self._known, use = self.use.level, self.use
            self._put(lambda moment: DiskMoved(at=moment.at, t=moment.t, use=use))

    def _seen(self, found: Room, before: DiskLevel) -> DiskUse:
        return DiskUse(
            level=judge(self._config(), found, before),
            disk=str(found.disk),
            free_bytes=found.bytes,
            total_bytes=found.total_bytes,
            free_files=found.files if found.total_files else None,
            parts=self._parts,
            audit_bytes_per_hour=self._growth(),
        )

    def _sample(self) -> None:
        if not self._samples or self._now() - self._samples[-1][0] >= SAMPLE_S:
            self._samples.append((self._now(), self._written()))

    def _growth(self) -> float | None:
        """Return the growth of the audit files in bytes per hour, over the last hour at most."""
        if not self._samples or self._now() - self._samples[0][0] < KNOWN_S:
            return None
        since, before = self._samples[0]
        return round(3600 * (self._written() - before) / (self._now() - since), 1)
