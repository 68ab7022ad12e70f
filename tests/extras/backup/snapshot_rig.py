"""A data directory with projects beside it, whose days go by."""

from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

from safetyd.extras.backup.retention import Retention
from safetyd.extras.backup.snapshots import SnapshotFacts, StateFolder, Wanted

MONDAY = date(2026, 3, 2)  # of 2026-W10


class SnapshotRig:
    def __init__(self, directory: Path) -> None:
        self.data_dir = directory / "data"
        self.project = directory / "project"
        self.data_dir.mkdir()
        self.project.mkdir()
        (self.project / "notes").write_text("first")
        self.kept = Retention(self.data_dir)
        self.snapshots, self.archives = self.kept.snapshots, self.kept.archives
        self.folders: tuple[StateFolder, ...] = (StateFolder("web", self.project),)

    def take(self, day: date, *, settings: Path | None = None, late: bool = False) -> SnapshotFacts:
        at = datetime.combine(day, time(3, 30), UTC)
        wanted = Wanted(day, at, self.folders, settings, late)
        return self.snapshots.take(wanted, spare=lambda: 2**40, rest=lambda: None)

    def take_all(self, first: date, count: int) -> None:
        for number in range(count):
            self.take(first + timedelta(days=number))
