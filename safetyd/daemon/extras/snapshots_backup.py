"""Makes daily snapshots and weekly archives, and saves checkpoints for `safetyd backup`."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from msgspec.structs import replace

from safetyd.core.events.event import Event
from safetyd.core.reporting.kept_days import KeptDays
from safetyd.core.reporting.records import Records
from safetyd.daemon.disk_space import spare
from safetyd.daemon.extra import Extra, ExtraHost
from safetyd.extras.backup.daily_snapshots import DailySnapshots, SnapshotSources
from safetyd.extras.backup.snapshots import StateFolder
from safetyd.extras.backup.tar_zst import INSTALL, NOT_INSTALLED
from safetyd.operators.contract.backup_contract import CheckpointCommand, CheckpointDone
from safetyd.operators.contract.status_contract import DaemonFacts, UnavailableExtra
from safetyd.operators.handlers import Handlers, work
from safetyd.operators.replies import CommandRefused


class SnapshotsAndBackup(Extra):
    """Makes snapshots in another thread, so that decisions do not wait."""

    def __init__(self, host: ExtraHost, known: Records) -> None:
        self._host = host
        of = self._of = host.of
        self._days = KeptDays()  # as recorded in the journal
        self._days.load(known.kept_days.save()())
        self._snapshots = DailySnapshots(
            of.data_dir,
            SnapshotSources(
                config=lambda: of.settings.config.history,
                zone=lambda: of.settings.policy.timezone,
                settings=lambda: of.settings.path,
                folders=self._state_folders,
                checkpoint=host.save_checkpoint,
                spare=lambda directory: spare(of.settings.config.disk, directory),
                now=lambda: of.clock.now().at,
                known=lambda: self._days,
            ),
            of.mailbox.record,
        )

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            self._days.observe(event)

    async def run(self) -> None:
        await self._snapshots.run()

    def extended(self, facts: DaemonFacts) -> DaemonFacts:
        return replace(facts, missing=self._days.missing) if self._wanted else facts

    def unavailable(self) -> Iterator[UnavailableExtra]:
        if self._wanted and find_spec("zstandard") is None:
            yield UnavailableExtra(name="archives", why=NOT_INSTALLED, fix=INSTALL)

    @property
    def handlers(self) -> Handlers:
        return dict([work(CheckpointCommand, lambda _by, _command: self.checkpoint())])

    async def checkpoint(self) -> CheckpointDone:
        """Save a checkpoint for a backup."""
        path = await self._host.save_checkpoint()
        if path is None:
            why = f"cannot write a checkpoint: {self._host.checkpoint_problem()}"
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

    @property
    def _wanted(self) -> bool:
        return bool(self._of.settings.config.history.snapshot_at)

    def _state_folders(self) -> tuple[StateFolder, ...]:
        """Return the configured `state_paths` of all projects."""
        return tuple(
            StateFolder(name, Path(project.root), path)
            for name, project in self._of.settings.policy.projects.items()
            for path in project.state_paths or ()
        )


EXTRA = SnapshotsAndBackup
