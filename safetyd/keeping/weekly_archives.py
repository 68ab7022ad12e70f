"""Archives of weeks: the last snapshot of each, as one file that `tar --zstd` reads.

The folder may be anywhere, so a file is known to be ours by its name and by its first bytes.
"""

import os
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, cast

from safetyd.keeping.snapshot_days import ARCHIVE, archived_week
from safetyd.keeping.zstd_files import NoFrame, compressing, read_skipped, skipped

DIRECTORY: Final = "archives"
MARK: Final = b"safetyd archive 1"
CHUNK_BYTES: Final = 1024 * 1024

_FRESH: Final = ".new"


class Archives:
    """The archives in one folder; the daemon's own folder is made, another must be there."""

    def __init__(self, data_dir: Path, chosen: str = "") -> None:
        self._own = not chosen
        self.directory = Path(chosen) if chosen else data_dir / DIRECTORY

    def weeks(self) -> list[str]:
        """Return the weeks of which there is an archive, oldest first."""
        try:
            paths = list(self.directory.iterdir())
        except FileNotFoundError:
            return []
        weeks = {week for path in paths if (week := archived_week(path.name))}
        return sorted(week for week in weeks if _is_ours(self.path(week)))

    def path(self, week: str) -> Path:
        return self.directory / f"{week}{ARCHIVE}"

    def write(self, week: str, snapshot: Path, rest: Callable[[], None]) -> Path:
        """Write the archive of a week whole or not at all."""
        if self._own:
            self.directory.mkdir(mode=0o700, exist_ok=True)
        path = self.path(week)
        if os.path.lexists(path):
            raise FileExistsError(f"{path} is there, and not an archive of safetyd's: move it away")
        fresh = path.with_name(f".{path.name}{_FRESH}")
        with suppress(FileNotFoundError):
            fresh.unlink()
        try:
            _write(fresh, snapshot, week, rest)
            fresh.rename(path)
        finally:
            fresh.unlink(missing_ok=True)
        return path

    def drop(self, week: str) -> None:
        self.path(week).unlink()


class _Resting:
    """A file that is written to in pieces, with a rest after each."""

    def __init__(self, write: Callable[[bytes], int], rest: Callable[[], None]) -> None:
        self._write = write
        self._rest = rest

    def write(self, data: bytes) -> int:
        self._rest()
        return self._write(data)


def _write(fresh: Path, snapshot: Path, week: str, rest: Callable[[], None]) -> None:
    opened = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(opened, "wb") as file:
        file.write(skipped(MARK))
        with compressing(file) as writer:
            resting = cast("IO[bytes]", _Resting(writer.write, rest))
            # A stream, because what is compressed cannot be gone back in.
            with tarfile.open(fileobj=resting, mode="w|", bufsize=CHUNK_BYTES) as tar:
                tar.add(snapshot, arcname=f"{week}/{snapshot.name}")
        file.flush()
        os.fsync(file.fileno())


def _is_ours(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return read_skipped(file) == MARK
    except (OSError, NoFrame):
        return False
