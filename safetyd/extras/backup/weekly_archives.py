"""Weekly archives: the last snapshot of each week as a `.tar.zst` file.

The folder may contain other files, so archives are recognised by name and first member.
"""

import os
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Final

from safetyd.extras.backup.snapshots import named_day
from safetyd.extras.backup.tar_zst import Damaged, Writable, tar_from, tar_into, written_whole

DIRECTORY: Final = "archives"
SUFFIX: Final = ".tar.zst"


def week_of(day: date) -> str:
    """Return the name of a day's week: 2026-W07."""
    return f"{day:%G-W%V}"


def last_day(week: str) -> date | None:
    """Return the Sunday of a week, or None if the name is not a week."""
    try:
        sunday = date.fromisoformat(f"{week}-7")
    except ValueError:
        return None
    return sunday if week_of(sunday) == week else None


class Archives:
    """The archives in a folder. The default folder is created; any other folder must exist."""

    def __init__(self, data_dir: Path, chosen: str = "") -> None:
        self._own = not chosen
        self.directory = Path(chosen) if chosen else data_dir / DIRECTORY

    def weeks(self) -> list[str]:
        """Return the weeks with an archive, oldest first."""
        try:
            names = [path.name for path in self.directory.iterdir()]
        except FileNotFoundError:
            return []
        weeks = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
        return sorted(week for week in weeks if last_day(week) and self.has(week))

    def has(self, week: str) -> bool:
        """Return True if the week has an archive that starts with one of its snapshots."""
        path = self.path(week)
        if path.is_symlink() or not path.is_file():
            return False
        try:
            with path.open("rb") as file, tar_from(file) as tar:
                first = tar.next()
        except (OSError, Damaged):
            return False
        folder, _, day = first.name.partition("/") if first else ("", "", "")
        return folder == week and named_day(day) is not None

    def path(self, week: str) -> Path:
        return self.directory / f"{week}{SUFFIX}"

    def write(self, week: str, snapshot: Path, rest: Callable[[], None]) -> Path:
        """Write the archive of a week atomically."""
        if self._own:
            self.directory.mkdir(mode=0o700, exist_ok=True)
        path = self.path(week)
        if os.path.lexists(path):
            raise FileExistsError(f"{path} exists and is not a safetyd archive; move it away")
        with written_whole(path) as file, tar_into(_Resting(file, rest)) as tar:
            tar.add(snapshot, arcname=f"{week}/{snapshot.name}")
        return path


class _Resting:
    """A file that pauses before each write."""

    def __init__(self, file: Writable, rest: Callable[[], None]) -> None:
        self._file = file
        self._rest = rest

    def write(self, data: bytes) -> int:
        self._rest()
        return self._file.write(data)
