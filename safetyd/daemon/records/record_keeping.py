"""What is kept beside journal and audit files: transcripts, snapshots, and backups of all."""

from collections.abc import Callable, Sequence
from pathlib import Path

import anyio.abc

from safetyd.core.events.event import Event
from safetyd.core.reporting.kept_days import KeptDays, MissingSnapshots
from safetyd.daemon.disk_space import spare
from safetyd.daemon.resources import Resources
from safetyd.journal.compaction import Compaction
from safetyd.journal.transcript_files import TranscriptFiles
from safetyd.keeping.snapshot_keeper import KeeperSources, SnapshotKeeper
from safetyd.keeping.snapshots import StateFolder
from safetyd.operators.contract.backup_contract import CheckpointCommand, CheckpointDone
from safetyd.operators.handlers import Handlers, work
from safetyd.operators.replies import CommandRefused


class RecordKeeping:
    """Everything that is kept; it works in other threads, after the journal has the events."""

    def __init__(
        self, of: Resources, known: KeptDays, compaction: Callable[[], Compaction]
    ) -> None:
        self._of = of
        self._days = KeptDays()  # as the journal has them
        self._days.load(known.save()())
        self._compaction = compaction
        self._transcripts = TranscriptFiles(of.data_dir)
        self._snapshots = SnapshotKeeper(
            of.data_dir,
            KeeperSources(
                config=lambda: of.settings.config.history,
                zone=lambda: of.settings.policy.timezone,
                settings=lambda: of.settings.path,
                folders=self._state_folders,
                checkpoint=lambda: compaction().save(),
                spare=lambda directory: spare(of.settings.config.disk, directory),
                now=lambda: of.clock.now().at,
                known=lambda: self._days,
            ),
            of.ticker.put,
        )

    def observe(self, events: Sequence[Event]) -> None:
        """Take note of what is durable."""
        self._transcripts.observe(events)
        for event in events:
            self._days.observe(event)

    @property
    def missing(self) -> MissingSnapshots | None:
        """Return the days that should have a snapshot and have none."""
        wanted = bool(self._of.settings.config.history.snapshot_at)
        return self._days.missing if wanted else None

    def run(self, tasks: anyio.abc.TaskGroup) -> None:
        tasks.start_soon(self._transcripts.run)
        tasks.start_soon(self._snapshots.run)

    @property
    def handlers(self) -> Handlers:
        """Return what people reach over the bus."""
        return dict([work(CheckpointCommand, lambda _by, _command: self.checkpoint())])

    async def checkpoint(self) -> CheckpointDone:
        """Save everything up to now, for a backup."""
        compaction = self._compaction()
        path = await compaction.save()
        if path is None:
            why = f"no checkpoint is written: {compaction.problem}"
            raise CommandRefused("unavailable", why)
        of = self._of
        return CheckpointDone(
            ok=True,
            seq=int(path.stem),
            file=path.name,
            data_dir=str(of.data_dir.absolute()),
            config=str(of.settings.path or ""),
            stop_files=tuple(str(file.absolute()) for file in of.settings.stop_files),
        )

    def _state_folders(self) -> tuple[StateFolder, ...]:
        """Return what projects call their state."""
        return tuple(
            StateFolder(name, Path(project.root), path)
            for name, project in self._of.settings.policy.projects.items()
            for path in project.state_paths or ()
        )
