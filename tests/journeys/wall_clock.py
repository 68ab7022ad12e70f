"""The wall clock of one daemon's process, which a test can move."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

# Python runs this in the daemon's process before anything else.
_SITE: Final = """
import os
import time

shown, _path = time.time, os.environ["WALL_CLOCK"]


def stepped():
    with open(_path) as seconds:
        return shown() + float(seconds.read())


time.time = stepped
"""


class WallClock:
    """A clock that is right at first. Monotonic time and other processes are not affected."""

    def __init__(self, directory: Path) -> None:
        (directory / "sitecustomize.py").write_text(_SITE)
        self._file = directory / "seconds"
        self._seconds = 0.0
        self.step(0.0)
        # Environment variables for the daemon.
        self.variables = {"PYTHONPATH": str(directory), "WALL_CLOCK": str(self._file)}

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self._seconds)

    def step(self, seconds: float) -> None:
        """Move the clock forward or back."""
        self._seconds += seconds
        new = self._file.with_suffix(".new")
        new.write_text(str(self._seconds))
        new.replace(self._file)
