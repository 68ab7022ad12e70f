"""Writes a backup: a checkpoint, and all other data at that moment.

The journal itself is not included: the checkpoint contains the state that the journal would
rebuild, and the audit files contain the same lines up to the checkpoint. The file is a `.tar.zst`.
Its first member is `backup.json`, and its last is `SHA256SUMS` for `sha256sum -c`. An encrypted
backup is in age's format.
"""

import hashlib
import io
import os
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from datetime import datetime
from pathlib import Path
from typing import IO, BinaryIO, Final, NamedTuple, cast

import msgspec

from safetyd import __version__
from safetyd.agents.stop_reserve import HELD
from safetyd.extras.backup import history_stores
from safetyd.extras.backup.age_encryption import encrypting
from safetyd.extras.backup.tar_zst import CHUNK_BYTES, tar_into, written_whole
from safetyd.journal import transcript_files
from safetyd.journal.audit import Opened, files
from safetyd.journal.audit_reading import hash_on, seq_of, start_of
from safetyd.journal.checkpoints import Unloadable, read, state_digest

FACTS: Final = "backup.json"
SUMS: Final = "SHA256SUMS"
SETTINGS: Final = "safetyd.toml"
KEYS: Final = "keys"
TEMPLATES: Final = "templates"  # an operator's own notification templates
JOURNAL_ID: Final = "journal-id"  # identifies the journal in a database

_ROLES: Final = ("agents", "operators", "observers", "relays")
_TAIL_BYTES: Final = 1024 * 1024

Progress = Callable[[int], None]  # called with the number of additional bytes


class NoBackup(Exception):
    """A backup cannot be made; the text says why."""


class BackupSource(NamedTuple):
    """The files of a daemon, and a checkpoint that it has just written."""

    data_dir: Path
    checkpoint: Path
    settings: Path | None = None
    stop_files: Sequence[Path] = ()


class BackupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `backup.json`: the last event, and which data the backup includes."""

    at: datetime
    seq: int
    head: str  # the hash of that event's audit line
    state: str  # a digest of the engine's state
    keys: bool
    settings: bool
    names: dict[str, tuple[str, ...]]  # the names that have a key, by role
    history: bool = False  # True if file histories are included
    stores: int = 0  # the number of file histories
    version: str = ""  # safetyd's version; 0.1 did not record it here


class BackupEntry(NamedTuple):
    """A file of a backup. Its content is bytes, or the first bytes of another file."""

    name: str
    size: int
    content: bytes | Path


class Hashed:
    """A file that computes its SHA-256 (`sum`) while it is read. `progress` gets the bytes read."""

    def __init__(self, file: BinaryIO, progress: Progress = lambda _count: None) -> None:
        self._file = file
        self._progress = progress
        self._hash = hashlib.sha256()

    def read(self, count: int = -1) -> bytes:
        data = self._file.read(count)
        self._hash.update(data)
        self._progress(len(data))
        return data

    def finish(self) -> None:
        """Read the rest."""
        while self.read(CHUNK_BYTES):
            pass

    @property
    def sum(self) -> str:
        return self._hash.hexdigest()


class Backup:
    """A prepared backup: its content and size are known."""

    def __init__(
        self, source: BackupSource, at: datetime, *, keys: bool, history: bool = False
    ) -> None:
        try:
            content = source.checkpoint.read_bytes()
            saved = read(source.checkpoint, content)
        except (OSError, Unloadable) as exc:
            raise NoBackup(f"cannot read the checkpoint: {exc}") from exc
        seq = saved.engine.seq
        audit = list(_audit(source.data_dir / "audit", seq))
        stores = history_stores.folders(source.data_dir)
        self._held = ExitStack()
        self.facts = BackupFacts(
            at=at,
            seq=seq,
            head=_head(audit, seq),
            state=state_digest(saved.engine),
            keys=keys,
            settings=source.settings is not None,
            names=_names(source.data_dir / KEYS),
            history=history,
            stores=len(stores),
            version=__version__,
        )
        self._entries = [
            _entry(FACTS, msgspec.json.encode(self.facts)),
            _entry(f"checkpoints/{source.checkpoint.name}", content),
            *audit,
            *_others(source, seq),
            *(_below(source.data_dir, KEYS) if keys else ()),
            *(self._histories(source.data_dir, stores) if history else ()),
        ]
        self.size = sum(entry.size for entry in self._entries)

    def close(self) -> None:
        """Allow file histories to be packed again."""
        self._held.close()

    def _histories(self, data_dir: Path, stores: Sequence[Path]) -> Iterator[BackupEntry]:
        try:
            self._held.enter_context(history_stores.not_packed(stores))
        except history_stores.StoreBusy as exc:
            raise NoBackup(str(exc)) from exc
        for path, content in history_stores.contents(stores):
            yield _entry(str(path.relative_to(data_dir)), content)

    def write(
        self,
        path: Path,
        progress: Progress,
        *,
        passphrase: str = "",
        recipients: Sequence[str] = (),
    ) -> None:
        """Write the backup atomically. Raises OSError. A backup with keys must be encrypted."""
        encrypted = bool(passphrase or recipients)
        if self.facts.keys and not encrypted:
            raise NoBackup("a backup with keys needs a passphrase or a recipient")
        if os.path.lexists(path):
            raise FileExistsError(f"{path} already exists; choose another name")
        at = int(self.facts.at.timestamp())
        with (
            written_whole(path) as file,
            encrypting(file, passphrase, recipients) if encrypted else nullcontext(file) as body,
            tar_into(body) as tar,
        ):
            sums = {entry.name: _add(tar, entry, at, progress) for entry in self._entries}
            _add(tar, _entry(SUMS, sums_text(sums)), at, lambda _count: None)


def sums_text(sums: Mapping[str, str]) -> bytes:
    """Return the checksums in the format of `sha256sum`."""
    return b"".join(b"%s  %s\n" % (sums[name].encode(), os.fsencode(name)) for name in sums)


def _add(tar: tarfile.TarFile, entry: BackupEntry, at: int, progress: Progress) -> str:
    """Add a file to a tar; return its SHA-256."""
    info = tarfile.TarInfo(entry.name)
    info.size, info.mode, info.mtime = entry.size, 0o600, at
    content = entry.content
    with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as file:
        hashed = Hashed(cast("BinaryIO", file), progress)
        tar.addfile(info, cast("IO[bytes]", hashed))
    return hashed.sum


def _audit(directory: Path, seq: int) -> Iterator[BackupEntry]:
    """Yield the audit files up to an event. The last file is cut after that event."""
    for path in files(directory):
        with path.open("rb") as file:
            opened = msgspec.json.decode(file.readline(), type=Opened)
            end = start_of(file, seq + 1)
        if opened.after_seq < seq:
            yield BackupEntry(f"audit/{path.name}", end, path)


def _head(audit: Sequence[BackupEntry], seq: int) -> str:
    """Return the hash of the last event. Raise if the audit files do not end with it."""
    if not audit:
        raise NoBackup(f"no audit file has event {seq}")
    _, size, path = audit[-1]
    with cast("Path", path).open("rb") as file:
        file.seek(max(0, size - _TAIL_BYTES))
        last = file.read(size - file.tell()).splitlines()[-1]
    if seq_of(last) != seq:
        raise NoBackup(f"the audit files end with event {seq_of(last)}, the checkpoint with {seq}")
    return hash_on(last)


def _others(source: BackupSource, seq: int) -> Iterator[BackupEntry]:
    yield from _transcripts(source.data_dir / transcript_files.DIRECTORY, seq)
    yield from _below(source.data_dir, "reports")
    yield from _below(source.data_dir, TEMPLATES)
    if source.settings is not None:
        yield _entry(SETTINGS, source.settings.read_bytes())
    # A stop must still be active after a restore.
    for path in (source.data_dir / HELD, source.data_dir / JOURNAL_ID, *source.stop_files):
        if path.parent == source.data_dir and path.is_file():
            yield _entry(path.name, path.read_bytes())


def _transcripts(directory: Path, seq: int) -> Iterator[BackupEntry]:
    """Yield transcripts up to event `seq`. A restored daemon writes later transcripts again."""
    for name in transcript_files.names(directory):
        path = directory / f"{name}.json"
        if transcript_files.seq_in(path) <= seq:
            yield _entry(f"{directory.name}/{path.name}", path)
    written = min(transcript_files.last_written(directory), seq)
    yield _entry(f"{directory.name}/{transcript_files.WRITTEN}", b"%d\n" % written)


def _below(data_dir: Path, folder: str) -> Iterator[BackupEntry]:
    for path in sorted((data_dir / folder).rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield _entry(str(path.relative_to(data_dir)), path)


def _names(keys: Path) -> dict[str, tuple[str, ...]]:
    found = {role: sorted(path.stem for path in (keys / role).glob("*.pub")) for role in _ROLES}
    return {role: tuple(names) for role, names in found.items() if names}


def _entry(name: str, content: bytes | Path) -> BackupEntry:
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    return BackupEntry(name, size, content)
