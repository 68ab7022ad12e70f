"""Restores files: first checks for conflicts, then writes.

Each folder is opened without following links, so nothing outside is ever written. A file is
replaced atomically and keeps its owner and permissions.
"""

import contextlib
import errno
import io
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple

from safetyd.extras.file_history.git_process import Git
from safetyd.extras.file_history.history_records import Change, Entry, HistoryError, named, shown

LINK: Final = "120000"
PROGRAM: Final = "100755"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FRESH: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK: Final = 1 << 20
_NO_FILES: Final = frozenset({b"", b".", b"..", b".git"})
_LEFTOVER: Final = re.compile(r"\.safetyd-[0-9a-f]{16}")
_NOTHING_THERE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # ELOOP: below a link loop

Fill = Callable[[Change, IO[bytes]], None]


class Obstacle(NamedTuple):
    """Something that would be lost because no commit has it."""

    path: bytes
    reason: str


class FileRestore:
    """Restores files below a folder: writes the `new` content of a change, or deletes the file."""

    def __init__(self, top: Path) -> None:
        self._top = os.fsencode(top)
        self.done = 0  # files deleted or written

    def check(self, changes: Sequence[Change]) -> None:
        """Refuse if a file to be overwritten is not in the previous commit: it would be lost."""
        if elsewhere := [change.path for change in changes if not may_write(change.path)]:
            raise HistoryError(f"nothing was changed: {named(elsewhere)} is not a valid path")
        going = {change.path for change in changes if change.old is not None}
        found = [
            obstacle
            for change in changes
            if change.new is not None and (obstacle := self._obstacle(change, going))
        ]
        if found:
            reasons = "; ".join(f"{shown(path)} {reason}" for path, reason in found[:5])
            raise HistoryError(f"nothing was changed, because this would be lost: {reasons}")
        self._check_writable(changes)

    def apply(self, changes: Sequence[Change], fill: Fill) -> None:
        """Delete and write files. `fill` writes the content of a file or link."""
        for change in changes:
            if change.new is None:
                self._remove(change.path)
                self.done += 1
        for change in changes:
            if change.new is not None:
                if self._is_folder(change.path):
                    self._clear(change.path)
                self._write(change, change.new, fill)
                self.done += 1

    def remove_leftovers(self, changes: Sequence[Change]) -> None:
        """Delete partly written files that a killed rollback left behind."""
        for parent in {one.path.rpartition(b"/")[0] for one in changes if may_write(one.path)}:
            with contextlib.suppress(OSError), self._opened(parent) as folder:
                for name in filter(_LEFTOVER.fullmatch, os.listdir(folder)):  # noqa: PTH208 - a file descriptor
                    os.unlink(name, dir_fd=folder)

    def _obstacle(self, change: Change, going: set[bytes]) -> Obstacle | None:
        for above in _above(change.path):
            mode = self._mode(above)
            if mode is None or (above in going and not stat.S_ISDIR(mode)):
                return None
            if not stat.S_ISDIR(mode):
                return Obstacle(above, "is not a folder, and not in the file history")
        mode = self._mode(change.path) or 0
        if stat.S_ISDIR(mode):
            inside = (path for path in self._inside(change.path) if path not in going)
            found = (Obstacle(path, "is in a folder that a file would replace") for path in inside)
            return next(found, None)
        kept = change.old is not None and (stat.S_ISREG(mode) or stat.S_ISLNK(mode))
        return None if kept or not mode else Obstacle(change.path, "is not in the file history")

    def _inside(self, folder: bytes) -> Iterator[bytes]:
        folders = [folder]
        while folders:
            here = folders.pop()
            with os.scandir(self._full(here)) as entries:
                for entry in entries:
                    path = here + b"/" + entry.name
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(path)
                    else:
                        yield path

    def _check_writable(self, changes: Sequence[Change]) -> None:
        """Refuse if a folder is not writable, before anything is changed."""
        closed = dict[bytes, None]()
        for change in changes:
            here = next(
                (above for above in reversed(_above(change.path)) if self._is_folder(above)), b""
            )
            if not os.access(self._full(here), os.W_OK | os.X_OK, effective_ids=True):
                closed[here or self._top] = None
        if closed:
            raise HistoryError(f"nothing was changed: {named(list(closed))} is not writable")

    def _remove(self, path: bytes) -> None:
        """Delete a file, and folders that become empty."""
        parent, _, name = path.rpartition(b"/")
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            self._opened(parent) as folder,
        ):
            os.unlink(name, dir_fd=folder)
        while parent:
            try:
                above, _, name = parent.rpartition(b"/")
                with self._opened(above) as folder:
                    os.rmdir(name, dir_fd=folder)
            except OSError:
                return  # not empty, or already deleted
            parent = above

    def _clear(self, path: bytes) -> None:
        """Delete folders that contain no files."""
        folders = [path]
        for folder in folders:  # the list grows: inner folders are appended
            inner = os.listdir(self._full(folder))  # noqa: PTH208 - bytes
            folders += [folder + b"/" + name for name in inner]
        for inside in reversed(folders):
            parent, _, name = inside.rpartition(b"/")
            with self._opened(parent) as opened:
                os.rmdir(name, dir_fd=opened)

    def _write(self, change: Change, entry: Entry, fill: Fill) -> None:
        parent, _, name = change.path.rpartition(b"/")
        with self._opened(parent, make=True) as folder:
            fresh = f".safetyd-{secrets.token_hex(8)}".encode()  # must match _LEFTOVER
            try:
                if entry.mode == LINK:
                    _write_link(folder, fresh, change, fill)
                else:
                    _write_file(folder, (fresh, name), change, entry, fill)
                os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(fresh, dir_fd=folder)
                raise

    @contextlib.contextmanager
    def _opened(self, path: bytes, *, make: bool = False) -> Iterator[int]:
        """Open a folder below the top, name by name."""
        folder = os.open(self._top, _FOLDER)
        try:
            for name in filter(None, path.split(b"/")):
                if name == b"..":
                    raise HistoryError(f"{shown(path)} is outside of the folder")
                if make:
                    _make_folder(folder, name)
                inner = os.open(name, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)

    def _mode(self, path: bytes) -> int | None:
        try:
            return os.lstat(self._full(path)).st_mode
        except OSError as exc:
            if exc.errno in _NOTHING_THERE:
                return None
            raise

    def _is_folder(self, path: bytes) -> bool:
        return stat.S_ISDIR(self._mode(path) or 0)

    def _full(self, path: bytes) -> bytes:
        return os.path.join(self._top, path)  # noqa: PTH118 - bytes


@contextlib.contextmanager
def stored(git: Git) -> Iterator[Fill]:
    """Yield a function that writes the content of git objects to files."""
    with git.talking("cat-file", "--batch") as (asked, answers):

        def fill(change: Change, into: IO[bytes]) -> None:
            name = change.new.object if change.new else ""
            asked.write(name.encode() + b"\n")
            asked.flush()
            words = answers.readline().split()
            if len(words) != 3:  # noqa: PLR2004 - its name, its type, its size
                raise HistoryError(f"{shown(change.path)} is no longer in the file history: {name}")
            left = int(words[2])
            while left:
                chunk = answers.read(min(left, _CHUNK))
                if not chunk:
                    raise HistoryError(f"git ended while it restored {shown(change.path)}")
                into.write(chunk)
                left -= len(chunk)
            answers.read(1)

        yield fill


def may_write(path: bytes) -> bool:
    """Return True if a path stays inside the folder and outside of a `.git` directory.

    Some disks ignore case, so upper and lower case are not distinguished.
    """
    return all(name.lower() not in _NO_FILES for name in path.split(b"/"))


def _above(path: bytes) -> list[bytes]:
    """Return the folders above a path, outermost first."""
    names = path.split(b"/")
    return [b"/".join(names[:count]) for count in range(1, len(names))]


def _make_folder(folder: int, name: bytes) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
        like = os.fstat(folder)
        if os.geteuid() == 0:  # new folders get the owner of their parent
            os.chown(name, like.st_uid, like.st_gid, dir_fd=folder, follow_symlinks=False)
            return
        made = os.open(name, _FOLDER, dir_fd=folder)
        try:
            _share(made, like, stat.S_IRWXG)
        finally:
            os.close(made)


def _write_link(folder: int, fresh: bytes, change: Change, fill: Fill) -> None:
    target = io.BytesIO()
    fill(change, target)
    os.symlink(target.getvalue(), fresh, dir_fd=folder)
    if os.geteuid() == 0:
        like = os.fstat(folder)
        os.chown(fresh, like.st_uid, like.st_gid, dir_fd=folder, follow_symlinks=False)


def _write_file(
    folder: int, names: tuple[bytes, bytes], change: Change, entry: Entry, fill: Fill
) -> None:
    fresh, name = names
    program = entry.mode == PROGRAM
    file = os.open(fresh, _FRESH, 0o777 if program else 0o666, dir_fd=folder)
    with os.fdopen(file, "wb") as into:
        before = _plain_file(folder, name)
        if os.geteuid() == 0:
            like = before or os.fstat(folder)
            os.fchown(file, like.st_uid, like.st_gid)
        if before is not None:
            os.fchmod(file, _permissions(before.st_mode, program=program))
        if os.geteuid() != 0:
            rights = stat.S_IRWXG if program else stat.S_IRGRP | stat.S_IWGRP
            _share(file, os.fstat(folder), rights)
        fill(change, into)


def _share(made: int, folder: os.stat_result, rights: int) -> None:
    """If another user owns the folder, give its group the same access to a new file.

    The new file belongs to safetyd, and the owner of the folder must be able to use it. If there is
    an access control list, the group's permissions limit those of all users in it.
    """
    if folder.st_uid == os.geteuid():
        return
    with contextlib.suppress(OSError):  # only possible for members of the group
        os.fchown(made, -1, folder.st_gid)
    mode = stat.S_IMODE(os.fstat(made).st_mode)
    if (shared := mode | folder.st_mode & rights) != mode:
        os.fchmod(made, shared)


def _plain_file(folder: int, name: bytes) -> os.stat_result | None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _permissions(mode: int, *, program: bool) -> int:
    """Return permissions with which all readers of a file may execute it, or nobody may."""
    rights = mode & 0o777
    return rights | (rights & 0o444) >> 2 if program else rights & ~0o111
