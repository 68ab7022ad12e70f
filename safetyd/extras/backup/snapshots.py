"""Daily snapshots: the state paths of projects, and safetyd's own state.

A snapshot is written under a temporary name and renamed when it is complete.
"""

import fcntl
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

import msgspec

from safetyd import __version__
from safetyd.extras.backup.folder_copy import FolderCopy, Index
from safetyd.host import sync
from safetyd.journal.audit import BrokenAudit, end_of, files

DIRECTORY: Final = "snapshots"
FACTS: Final = "snapshot.json"
SHOWN_NOTES: Final = 100

_INDEX: Final = "index.msgpack"
_LOCK: Final = ".lock"
_FRESH: Final = ".new"
_GONE: Final = ".gone"


class Busy(Exception):
    """Another process uses the snapshots."""


class StateFolder(NamedTuple):
    """A state file or folder of a project, by its path below the project's root."""

    project: str
    root: Path
    path: str = ""


class AuditHead(msgspec.Struct, frozen=True):
    """The end of an audit file, to detect later changes."""

    file: str
    size: int
    seq: int
    hash: str


class SnapshotFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `snapshot.json`. `linked` files are shared with the previous snapshot."""

    day: date
    at: datetime
    version: str
    files: int
    linked: int
    size: int
    late: bool = False
    notes: tuple[str, ...] = ()  # the first problems
    noted: int = 0  # how many problems there are


class Wanted(NamedTuple):
    """The content of a snapshot."""

    day: date
    at: datetime
    folders: Sequence[StateFolder] = ()
    settings: Path | None = None  # the configuration file
    late: bool = False


def named_day(name: str) -> date | None:
    """Return the day in the name of a snapshot, or None if the name is not a day."""
    try:
        day = date.fromisoformat(name)
    except ValueError:
        return None
    return day if day.isoformat() == name else None


class Snapshots:
    """The snapshots of a data directory. `own` is another folder that is never included."""

    def __init__(self, data_dir: Path, own: Path) -> None:
        self._data_dir = data_dir
        self._own = (data_dir, own)
        self.directory = data_dir / DIRECTORY

    def days(self) -> list[date]:
        """Return the days with a complete snapshot, oldest first."""
        try:
            paths = list(self.directory.iterdir())
        except FileNotFoundError:
            return []
        whole = (path for path in paths if _is_folder(path) and (path / FACTS).is_file())
        return sorted(day for path in whole if (day := named_day(path.name)))

    def path(self, day: date) -> Path:
        return self.directory / day.isoformat()

    def take(
        self, wanted: Wanted, *, spare: Callable[[], float], rest: Callable[[], None]
    ) -> SnapshotFacts:
        """Take a snapshot, and remove leftovers of failed attempts."""
        with self.alone(wait=True):
            self.sweep()
            fresh = self.directory / f".{wanted.day}{_FRESH}"
            fresh.mkdir(mode=0o700)
            try:
                facts = self._fill(fresh, wanted, spare, rest)
                fresh.rename(self.path(wanted.day))
                sync(self.directory)
            except BaseException:
                shutil.rmtree(fresh, ignore_errors=True)
                raise
        return facts

    def drop(self, day: date) -> None:
        """Delete a snapshot. A partly deleted snapshot is not listed."""
        gone = self.directory / f".{day}{_GONE}"
        self.path(day).rename(gone)
        shutil.rmtree(gone)

    def sweep(self) -> None:
        """Remove partly written and partly deleted snapshots."""
        for path in self.directory.iterdir():
            name = path.name.removeprefix(".")
            day = name.removesuffix(_FRESH).removesuffix(_GONE)
            if path.name != name != day and named_day(day) and _is_folder(path):
                shutil.rmtree(path)

    @contextmanager
    def alone(self, *, wait: bool = False) -> Iterator[None]:
        """Lock the snapshots; raises `Busy` if another process has locked them."""
        self.directory.mkdir(mode=0o700, exist_ok=True)
        with (self.directory / _LOCK).open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise Busy(f"another safetyd process is using {self.directory}") from None
            yield

    def _fill(
        self,
        fresh: Path,
        wanted: Wanted,
        spare: Callable[[], float],
        rest: Callable[[], None],
    ) -> SnapshotFacts:
        before = max((day for day in self.days() if day < wanted.day), default=None)
        copy = FolderCopy(
            fresh,
            before=None if before is None else self.path(before),
            known={} if before is None else _index(self.path(before)),
            spare=spare,
            rest=rest,
            own=self._own,
        )
        for name, folder in _named(wanted.folders):
            copy.add(folder.root, folder.path, name)
        self._add_own(copy, wanted.settings)
        facts = SnapshotFacts(
            day=wanted.day,
            at=wanted.at,
            version=__version__,
            files=copy.files,
            linked=copy.linked,
            size=copy.size,
            late=wanted.late,
            notes=tuple(copy.notes[:SHOWN_NOTES]),
            noted=len(copy.notes),
        )
        copy.write(_INDEX, msgspec.msgpack.encode(copy.index))
        copy.write(FACTS, msgspec.json.format(msgspec.json.encode(facts), indent=2) + b"\n")
        sync(fresh)
        return facts

    def _add_own(self, copy: FolderCopy, settings: Path | None) -> None:
        checkpoints = sorted((self._data_dir / "checkpoints").glob("*.msgpack"))
        for path in checkpoints[-1:]:
            copy.add(path.parent, path.name, f"safetyd/checkpoints/{path.name}")
        heads = list(_audit_heads(self._data_dir / "audit"))
        copy.write("safetyd/audit-heads.json", msgspec.json.encode(heads) + b"\n")
        if settings is not None:
            copy.add(settings.resolve().parent, settings.resolve().name, "safetyd/safetyd.toml")


def _audit_heads(directory: Path) -> Iterator[AuditHead]:
    """Yield the end of each audit file. Damaged files are skipped."""
    for path in files(directory):
        try:
            size = path.stat().st_size
            link, seq = end_of(path)
        except (OSError, BrokenAudit, msgspec.DecodeError):
            continue
        yield AuditHead(path.name, size, seq, link.decode())


def _named(folders: Sequence[StateFolder]) -> Iterator[tuple[str, StateFolder]]:
    """Yield a safe path in the snapshot for each folder, unless another folder contains it."""
    places = {_place(folder): folder for folder in folders}
    for place, folder in places.items():
        if not any(place.is_relative_to(other) for other in places if other != place):
            yield str(place), folder


def _place(folder: StateFolder) -> PurePosixPath:
    name = folder.project.replace("%", "%25").replace("/", "%2F")
    if set(name) <= {"."}:  # a name such as ".." would mean another folder
        name = f"%{name}"
    parts = [part for part in folder.path.split("/") if part not in {"", ".", ".."}]
    return PurePosixPath("projects", name, *(parts or ["state"]))


def _index(path: Path) -> Index:
    """Return the files of a snapshot; empty if unknown."""
    try:
        return msgspec.msgpack.decode((path / _INDEX).read_bytes(), type=Index)
    except (OSError, msgspec.DecodeError):
        return {}


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
