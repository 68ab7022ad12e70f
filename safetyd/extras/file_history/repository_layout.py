"""Finds the repository of a folder without running git.

The folder belongs to agents. Only small regular files are read.
"""

import os
import stat
from pathlib import Path
from typing import Final, NamedTuple

_MAX_POINTER: Final = 8192
_MAX_EXCLUDES: Final = 1024 * 1024


class Layout(NamedTuple):
    """A folder and its repository; without one it is its own top."""

    root: Path
    top: Path  # where the paths of the history start
    git_dir: Path | None = None  # for a worktree, the `.git` of its main repository

    @property
    def within(self) -> str:
        """Return the folder relative to the top, empty if it is the top."""
        below = self.root.relative_to(self.top).as_posix()
        return "" if below == "." else below

    def excludes(self) -> bytes:
        """Return ignore patterns of the repository besides its .gitignore files."""
        if self.git_dir is None:
            return b""
        return small_file(self.git_dir / "info" / "exclude", _MAX_EXCLUDES) or b""


def find(root: Path) -> Layout:
    """Return the nearest repository that contains a folder, as git would."""
    root = root.resolve()
    for top in (root, *root.parents):
        git_dir = _git_dir(top)
        if git_dir is not None:
            return Layout(root, top, _common_dir(git_dir))
    return Layout(root, root)


def small_file(path: Path, limit: int) -> bytes | None:
    """Return the content of a small regular file; a pipe would block forever."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size > limit:
            return None
        return os.read(file, found.st_size)
    except OSError:
        return None
    finally:
        os.close(file)


def is_below(path: bytes, folder: bytes) -> bool:
    """Return True if a path of the history is a folder or inside it. The top is empty."""
    return not folder or path == folder or path.startswith(folder.rstrip(b"/") + b"/")


def _git_dir(top: Path) -> Path | None:
    here = top / ".git"
    if is_repository(here):
        return here
    pointer = small_file(here, _MAX_POINTER)
    if pointer is None or not pointer.startswith(b"gitdir: "):
        return None
    there = top / os.fsdecode(pointer.removeprefix(b"gitdir: ").rstrip(b"\r\n"))
    return there.resolve() if is_repository(there) else None


def _common_dir(git_dir: Path) -> Path:
    pointer = small_file(git_dir / "commondir", _MAX_POINTER)
    if pointer is None:
        return git_dir
    return (git_dir / os.fsdecode(pointer.rstrip(b"\r\n"))).resolve()


def is_repository(folder: Path) -> bool:
    """Return True if a folder looks like a `.git` directory, or that of a worktree."""
    try:
        if not (folder / "HEAD").is_file():
            return False
        common = (folder / "commondir").is_file()
        return common or ((folder / "objects").is_dir() and (folder / "refs").is_dir())
    except OSError:
        return False
