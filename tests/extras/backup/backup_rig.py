"""A data directory as a daemon leaves it, made without one."""

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.event import Event
from safetyd.core.policy import Policy
from safetyd.extras.backup.backup import Backup, BackupFacts, BackupSource
from safetyd.extras.backup.restoring import Restoring
from safetyd.journal.audit import Audit
from safetyd.journal.checkpoints import Checkpoints, SavedCheckpoint
from tests.story import play, propose, stop

AT = datetime(2026, 3, 2, 12, tzinfo=UTC)
PASSPHRASE = "correct horse battery"


class BackupRig:
    def __init__(self, directory: Path, max_bytes: int = 1_000_000) -> None:
        self.directory = directory
        self.data_dir = directory / "data"
        self.data_dir.mkdir()
        self.engine = Engine(Policy())
        self._audit = Audit(self.data_dir / "audit", max_bytes)
        self._audit.open()
        self.checkpoints = Checkpoints(self.data_dir / "checkpoints")
        self.settings: Path | None = None
        self.stop_files: tuple[Path, ...] = ()
        self.live(propose(0), stop(1), propose(2, id="p2"))
        self.checkpoint = self.save()

    def live(self, *story: Event) -> None:
        for event in story:
            events = play(self.engine, event)
            self._audit.append([encode(each) for each in events], events[-1].seq)

    def save(self) -> Path:
        saved = SavedCheckpoint(stream_seq=77, t=50.0, engine=self.engine.save()())
        return self.checkpoints.write(saved)

    def write(self, name: str, text: str) -> Path:
        path = self.data_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def prepared(self, *, keys: bool = False, history: bool = False) -> Backup:
        source = BackupSource(self.data_dir, self.checkpoint, self.settings, self.stop_files)
        return Backup(source, AT, keys=keys, history=history)

    def back_up(
        self, passphrase: str = "", *, recipients: Sequence[str] = (), history: bool = False
    ) -> Path:
        """Write a backup; one that is encrypted has the keys."""
        path = self.directory / "backup"
        path.unlink(missing_ok=True)
        keys = bool(passphrase or recipients)
        with closing(self.prepared(keys=keys, history=history)) as prepared:
            prepared.write(path, ignored, passphrase=passphrase, recipients=recipients)
        return path

    def restore(
        self,
        file: Path,
        passphrase: str = PASSPHRASE,
        into: str = "restored",
        identity: Path | None = None,
    ) -> BackupFacts:
        restoring = Restoring(file, self.directory / into, lambda: passphrase, identity)
        return restoring.run(ignored)

    @property
    def restored(self) -> Path:
        return self.directory / "restored"


def ignored(_count: int) -> None: ...
