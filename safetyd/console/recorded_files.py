"""Files that a command writes, with a record of what they were before, so that it can be undone."""

import base64
import difflib
import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from safetyd.console.failure import Failure, using_file
from safetyd.console.terminal_text import plain
from safetyd.host import write_whole

Record = TypeVar("Record")


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


def read_record(path: Path, kind: type[Record]) -> Record | None:
    """Return a record, or None if there is none."""
    try:
        with using_file(path, "read"):
            return msgspec.json.decode(path.read_bytes(), type=kind)
    except msgspec.DecodeError as exc:
        raise Failure(f"{path} is damaged: {exc}. Delete it and try again") from exc
    except Failure:
        if os.path.lexists(path):
            raise
        return None


def write_record(path: Path, record: object) -> None:
    """Write a record to a folder that only its owner can read, unless the folder exists."""
    with using_file(path, "write"):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, msgspec.json.encode(record) + b"\n")


def read(path: Path) -> bytes | None:
    with using_file(path, "read"):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None


def diff(change: Change, shown: Callable[[str], str] = plain) -> str:
    """Return a change as a unified diff."""
    before, after = (
        (content or b"").decode("utf-8", "replace").splitlines(keepends=True)
        for content in (change.before, change.after)
    )
    name = str(change.path)
    lines = difflib.unified_diff(before, after, name, name)
    return "".join(shown(line.rstrip("\n")) + "\n" for line in lines)


def recorded(changes: Sequence[Change], earlier: Sequence[FileRecord]) -> tuple[FileRecord, ...]:
    """Return the records of all files. The content before the first of all changes stays."""
    known = {file.path: file for file in earlier}
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


def undoing(record: FileRecord, current: bytes | None, *, changed: bool = False) -> Change | None:
    """Return the change that restores the old bytes; None if there is no file.

    Also None if the file was changed since, unless `changed` files are to be restored too.
    """
    if current is None or (_hash(current) != record.after and not changed):
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


def remove_folders(files: Sequence[FileRecord]) -> None:
    """Remove the folders that were created for files, if they are empty."""
    for file in files:
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
