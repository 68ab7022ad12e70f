"""Writes settings files of hosts, and remembers how they were before.

The record is in the user's own state folder, not in the daemon's.
"""

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from safetyd.console.failure import Failure, using_file
from safetyd.host import user_name, write_whole
from safetyd.hosts.host_catalog import Scope


class Change(NamedTuple):
    """A file before and after; None: it does not exist."""

    path: Path
    before: bytes | None
    after: bytes | None


class FileRecord(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    before: str | None  # base64
    after: str  # SHA-256
    folders: tuple[str, ...] = ()  # that were created for it, the innermost first


class HostRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What `protect` wrote for one host, so that `unprotect` can undo exactly that."""

    host: str
    scope: Scope
    agent: str
    files: tuple[FileRecord, ...]


class HostRecords:
    """The records of one user."""

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        state = environment.get("XDG_STATE_HOME") or home / ".local" / "state"
        self._folder = Path(state) / "safetyd" / "hosts"

    def read(self, host: str, scope: Scope) -> HostRecord | None:
        path = self._path(host, scope)
        try:
            with using_file(path, "read"):
                return msgspec.json.decode(path.read_bytes(), type=HostRecord)
        except msgspec.DecodeError as exc:
            raise Failure(f"{path} is damaged: {exc}. Delete it and try again") from exc
        except Failure:
            if os.path.lexists(path):
                raise
            return None

    def write(self, record: HostRecord) -> None:
        path = self._path(record.host, record.scope)
        with using_file(path, "write"):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(path, msgspec.json.encode(record) + b"\n")

    def remove(self, host: str, scope: Scope) -> None:
        with using_file(self._path(host, scope), "write"):
            self._path(host, scope).unlink(missing_ok=True)

    def token_file(self, agent: str) -> Path:
        """Return where the token of an agent is, if it needs one."""
        return self._folder / f"{agent}.token"

    def _path(self, host: str, scope: Scope) -> Path:
        return self._folder / f"{host}-{scope}.json"


def read(path: Path) -> bytes | None:
    with using_file(path, "read"):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None


def check_owner(path: Path) -> None:
    """Refuse a file that belongs to another user."""
    with using_file(path, "read"):
        owner = path.stat().st_uid if path.exists() else os.geteuid()
    if owner != os.geteuid():
        raise Failure(
            f"{path} belongs to {user_name(owner)}. Run this as {user_name(owner)}. "
            "Nothing was written",
            "not_yours",
        )


def recorded(changes: Sequence[Change], earlier: HostRecord | None) -> tuple[FileRecord, ...]:
    """Return the records of all files. The content before the first `protect` stays."""
    known = {} if earlier is None else {file.path: file for file in earlier.files}
    fresh = (_recorded(change, known.get(str(change.path))) for change in changes)
    return tuple((known | {file.path: file for file in fresh}).values())


def _recorded(change: Change, known: FileRecord | None) -> FileRecord:
    after = _hash(change.after or b"")
    if known is not None and change.before is not None and known.after == _hash(change.before):
        return msgspec.structs.replace(known, after=after)
    before = None if change.before is None else base64.b64encode(change.before).decode()
    missing = [folder for folder in change.path.parents if not folder.exists()]
    return FileRecord(
        path=str(change.path), before=before, after=after, folders=tuple(map(str, missing))
    )


def undoing(record: FileRecord, current: bytes | None) -> Change | None:
    """Return the change that restores the old bytes; None if the file was changed since."""
    if current is None or _hash(current) != record.after:
        return None
    before = None if record.before is None else base64.b64decode(record.before)
    return Change(Path(record.path), current, before)


def write(changes: Sequence[Change]) -> None:
    """Write all files, or none."""
    done: list[Change] = []
    try:
        for change in changes:
            with using_file(change.path, "write"):
                _write(change.path, change.after)
            done.append(change)
    except Failure:
        put_back(done)
        raise


def put_back(changes: Sequence[Change]) -> None:
    """Restore the files to what they were before the changes."""
    for change in reversed(changes):
        with suppress(OSError):
            _write(change.path, change.before)


def remove_folders(record: HostRecord) -> None:
    """Remove the folders that `protect` created, if they are empty."""
    for file in record.files:
        for folder in file.folders:
            with suppress(OSError):
                Path(folder).rmdir()


def _write(path: Path, content: bytes | None) -> None:
    """Write a file, follow links, and preserve mode and owner."""
    target = path.resolve()
    if content is None:
        target.unlink(missing_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    before = target.stat() if target.exists() else None

    def look(fresh: Path) -> None:
        if before is not None and (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
            os.chown(fresh, before.st_uid, before.st_gid)

    mode = 0o644 if before is None else before.st_mode & 0o7777
    write_whole(target, content, mode=mode, look=look)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
