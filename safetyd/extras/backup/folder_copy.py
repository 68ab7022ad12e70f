"""Copies folders while other processes write to them, without ever following links.

Every folder and file is opened relative to its parent, so that nobody can insert a link. Files that
are unchanged since the previous copy are hard-linked to it.
"""

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

import msgspec

MAX_DEPTH: Final = 40
CHUNK_BYTES: Final = 1024 * 1024
FILES_AT_ONCE: Final = 16

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FRESH: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PERMISSIONS: Final = 0o777


class NoRoom(OSError):
    """The disk has too little space for the copy."""


class SourceState(msgspec.Struct, frozen=True, array_like=True):
    """The state of a file. While it is equal, the file is unchanged: only the kernel sets ctime."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


Index = dict[bytes, SourceState]  # unchanged files by their path in the copy


class _Level(NamedTuple):
    """Open folders: the source, its copy, and the previous copy if there is one."""

    source: int
    target: int
    before: int | None
    path: PurePosixPath  # in the copy
    depth: int


class FolderCopy:
    """Copies into the folder `target`. `before` is the previous copy, with the files in `known`.

    Unreadable files and files that change during the copy are listed in `notes`; write errors
    raise OSError. `rest` is called between steps, `spare` returns how many bytes may be written,
    and folders in `own` are skipped.
    """

    def __init__(
        self,
        target: Path,
        *,
        before: Path | None = None,
        known: Mapping[bytes, SourceState] | None = None,
        spare: Callable[[], float],
        rest: Callable[[], None],
        own: Sequence[Path],
    ) -> None:
        self._target = target
        self._before = before
        self._known = known or {}
        self._spare = spare
        self._rest = rest
        self._own = {_identity(path.stat()) for path in own if path.exists()}
        self.index: Index = {}
        self.notes: list[str] = []
        self.files = 0
        self.linked = 0
        self.size = 0

    def add(self, root: Path, path: str, name: str) -> None:
        """Copy the file or folder at `path` below `root` to `name`."""
        *above, last = PurePosixPath(name).parts
        parts = PurePosixPath(path).parts
        if ".." in parts or PurePosixPath(path).is_absolute():
            self._note(name, "is not below its root")
            return
        try:
            source = _walk(root, parts[:-1])
        except OSError as exc:
            self._note(name, exc.strerror)
            return
        (self._target / PurePosixPath(*above)).mkdir(mode=0o700, parents=True, exist_ok=True)
        with _closing(source), self._level(source, PurePosixPath(*above)) as level:
            self._copy(level, parts[-1] if parts else ".", last)

    def write(self, name: str, data: bytes) -> None:
        """Add a generated file to the copy."""
        path = self._target / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, _FRESH, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._count(len(data))

    @contextmanager
    def _level(self, source: int, above: PurePosixPath) -> Iterator[_Level]:
        target = os.open(self._target / above, _FOLDER)
        before = _open_folder(None if self._before is None else self._before / above)
        with _closing(target), _closing(before):
            yield _Level(source, target, before, above, 0)

    def _copy(self, level: _Level, name: str, called: str) -> None:
        """Copy a file, folder or link of the source."""
        path = level.path / called
        try:
            found = os.stat(name, dir_fd=level.source, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                leads = os.readlink(name, dir_fd=level.source)
            elif stat.S_ISDIR(found.st_mode):
                opened = os.open(name, _FOLDER, dir_fd=level.source)
            elif stat.S_ISREG(found.st_mode):
                opened = os.open(name, _FILE, dir_fd=level.source)
            else:
                self._note(path, "is neither a file nor a folder")
                return
        except OSError as exc:
            self._note(path, exc.strerror)
            return
        if stat.S_ISLNK(found.st_mode):
            os.symlink(leads, called, dir_fd=level.target)
            self._count(0)
            return
        with _closing(opened):
            if stat.S_ISDIR(found.st_mode):
                self._copy_folder(level, opened, called)
            else:
                self._copy_file(level, opened, called)

    def _copy_folder(self, level: _Level, source: int, called: str) -> None:
        path, found = level.path / called, os.fstat(source)
        if _identity(found) in self._own:
            self._note(path, "belongs to safetyd")
            return
        if level.depth >= MAX_DEPTH:
            self._note(path, f"is more than {MAX_DEPTH} folders deep")
            return
        try:
            names = sorted(os.listdir(source))
        except OSError as exc:
            self._note(path, exc.strerror)
            return
        os.mkdir(called, 0o700, dir_fd=level.target)
        target = os.open(called, _FOLDER, dir_fd=level.target)
        before = _open_folder(called, level.before) if level.before is not None else None
        with _closing(target), _closing(before):
            inner = _Level(source, target, before, path, level.depth + 1)
            for name in names:
                self._copy(inner, name, name)
            # Deleting the copy later requires access to the folder.
            os.fchmod(target, found.st_mode & _PERMISSIONS | 0o700)
            os.fsync(target)

    def _copy_file(self, level: _Level, source: int, called: str) -> None:
        path, found = level.path / called, os.fstat(source)
        if not stat.S_ISREG(found.st_mode):
            self._note(path, "is no longer a file")
            return
        state, key = _state(found), os.fsencode(path)
        if self._known.get(key) == state and _linked(level, called):
            self.linked += 1
            self.index[key] = state
        elif found.st_size > self._spare():
            raise NoRoom(f"{_shown(path)} has {found.st_size} bytes, and the disk would be full")
        elif self._write_copy(level, source, called, found):
            self.index[key] = state
        else:
            self._note(path, "changed while it was read, or cannot be read completely")
        self._count(found.st_size)

    def _write_copy(self, level: _Level, source: int, called: str, found: os.stat_result) -> bool:
        """Copy a file. Return False if it changed in the meantime."""
        target = os.open(called, _FRESH, 0o600, dir_fd=level.target)
        with _closing(target):
            left = found.st_size
            while left > 0:
                done = _copied(source, target, min(left, CHUNK_BYTES))
                if not done:
                    break
                left -= done
                self._rest()
            os.fchmod(target, found.st_mode & _PERMISSIONS)
            os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
            os.fsync(target)
        return not left and _state(os.fstat(source)) == _state(found)

    def _count(self, size: int) -> None:
        self.files += 1
        self.size += size
        if self.files % FILES_AT_ONCE == 0:
            self._rest()

    def _note(self, path: PurePosixPath | str, why: str | None) -> None:
        self.notes.append(f"{_shown(path)}: {why}")


def _walk(root: Path, parts: tuple[str, ...]) -> int:
    """Open a folder below `root`, one step at a time. Only `root` itself may be a link."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in parts:
        with _closing(folder):
            folder = os.open(part, _FOLDER, dir_fd=folder)
    return folder


def _open_folder(path: Path | str | None, above: int | None = None) -> int | None:
    if path is None:
        return None
    with suppress(OSError):
        return os.open(path, _FOLDER, dir_fd=above)
    return None


def _linked(level: _Level, called: str) -> bool:
    """Hard-link a file to its previous copy; return False if that is not possible."""
    if level.before is None:
        return False
    try:
        os.link(
            called,
            called,
            src_dir_fd=level.before,
            dst_dir_fd=level.target,
            follow_symlinks=False,
        )
    except OSError:
        return False
    return True


def _copied(source: int, target: int, count: int) -> int:
    """Copy some bytes, as a reflink if the file system can. Return 0 at the end of the file."""
    with suppress(OSError):
        return os.copy_file_range(source, target, count)
    try:
        data = os.read(source, count)
    except OSError:
        return 0
    done = 0
    while done < len(data):
        done += os.write(target, data[done:])
    return done


def _state(found: os.stat_result) -> SourceState:
    return SourceState(
        found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    )


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _shown(path: PurePosixPath | str) -> str:
    return os.fsencode(path).decode("utf-8", "replace")


@contextmanager
def _closing(opened: int | None) -> Iterator[None]:
    try:
        yield
    finally:
        if opened is not None:
            os.close(opened)
