"""From the file of a backup to a data directory that a daemon starts from.

The journal begins anew behind the checkpoint: its batches are numbered from 1, its events go on
where the audit files end.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from tarfile import TarInfo
from typing import IO

import msgspec

from safetyd.journal.audit import BrokenAudit, verify
from safetyd.journal.checkpoints import Checkpoints, Unloadable, read, state_digest
from safetyd.keeping import history_stores
from safetyd.keeping.backup import FACTS, BackupFacts
from safetyd.keeping.backup_file import BackupReader, BackupUnusable, Progress


class NotEmpty(Exception):
    """Something is where a backup is to be restored."""


class Restoring:
    """A backup, and the directory that it becomes. `passphrase` is asked if it needs one.

    Nothing is written before the whole file is known to be as it was.
    """

    def __init__(self, file: Path, into: Path, passphrase: Callable[[], str]) -> None:
        _check_free(into)
        self._into = into
        self._reader = BackupReader(file)
        if self._reader.header.sealing is not None:
            self._reader.unlock(passphrase())
        self.size = self._reader.size

    def run(self, progress: Progress) -> BackupFacts:
        """Restore whole or not at all; raises `BackupUnusable` or OSError."""
        self._into.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{self._into.name}.", dir=self._into.parent))
        try:
            for member, content in self._reader.members(progress):
                _extract(fresh, member, content)
            facts = _check(fresh)
            history_stores.complete(fresh)
            fresh.rename(self._into)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        return facts


def _check_free(into: Path) -> None:
    if into.is_symlink() or (into.exists() and not into.is_dir()):
        raise NotEmpty(f"{into} is not a directory: choose another")
    if into.is_dir() and any(into.iterdir()):
        raise NotEmpty(f"{into} is not empty: choose a new directory")


def _extract(fresh: Path, member: TarInfo, content: IO[bytes] | None) -> None:
    """Write one file where its name leads, which must be within the directory."""
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or not name.parts or "\0" in member.name:
        raise BackupUnusable(f"it holds {member.name!r}, which would lead out of the directory")
    if content is None:
        raise BackupUnusable(f"it holds {member.name!r}, which is not a file")
    path = fresh / name
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except (FileExistsError, NotADirectoryError):
        raise BackupUnusable(f"it holds {member.name!r} twice") from None
    with os.fdopen(opened, "wb") as file:
        shutil.copyfileobj(content, file)
        file.flush()
        os.fsync(file.fileno())


def _check(fresh: Path) -> BackupFacts:
    """Refuse what no daemon would go on from, and let the journal begin behind the checkpoint."""
    try:
        facts = msgspec.json.decode((fresh / FACTS).read_bytes(), type=BackupFacts)
        (fresh / FACTS).unlink()
        found = verify(fresh / "audit")
    except (FileNotFoundError, msgspec.DecodeError, BrokenAudit) as exc:
        raise BackupUnusable(f"it does not fit together: {exc}") from exc
    checkpoints = Checkpoints(fresh / "checkpoints")
    try:
        (saved,) = map(read, checkpoints.paths())
    except (Unloadable, ValueError) as exc:
        raise BackupUnusable(
            f"its checkpoint cannot be used ({exc}): restore it with the safetyd that made it"
        ) from exc
    said = (facts.seq, facts.head, facts.state)
    if said != (found.last_seq, found.last_hash, state_digest(saved.engine)):
        raise BackupUnusable(
            f"it does not fit together: the audit files end with event {found.last_seq}, "
            f"the checkpoint with {saved.engine.seq}"
        )
    checkpoints.write(msgspec.structs.replace(saved, stream_seq=0))
    return facts
