"""Finds differences between a folder and git's index, and updates the index.

git compares times and sizes, so unchanged files are not read. Links are not followed; pipes and
devices are ignored.
"""

import contextlib
import math
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from safetyd.core.events.disk_words import size as size_words
from safetyd.extras.file_history.git_process import Git, GitFailed
from safetyd.extras.file_history.history_records import Change, Entry, HistoryError, LeftOut, named
from safetyd.host import Spare

REPOSITORY: Final = "160000"  # the mode of a nested repository
_TRIES: Final = 4  # attempts, if files change while they are read
_CLOSED: Final = b"could not open directory"
_BLOCK: Final = 4096  # the least space that an object needs on disk

Select = Callable[[bytes], bool]


def no_limit(_directory: Path) -> Spare:
    return Spare(math.inf, math.inf)


class CommitLimits(NamedTuple):
    """Size limits for files and commits, and the free space of a disk."""

    file_bytes: float = math.inf
    commit_bytes: float = math.inf
    spare: Callable[[Path], Spare] = no_limit

    def exceeded(self, top: bytes, paths: Iterable[bytes], objects: Path) -> list[LeftOut]:
        """Return the files that exceed the limits. Large files are left out before small ones.

        `objects` is the folder where git stores objects.
        """
        spare = self.spare(objects)
        sizes = sorted((_size(top, path), path) for path in paths)
        if spare.bytes < _BLOCK or spare.files < 1:
            raise HistoryError(
                f"the disk of {objects} is nearly full, and the rest is reserved for safetyd; "
                "free up space"
            )
        found = list[LeftOut]()
        taken, used, files = 0, 0, 0
        for size, path in sizes:
            made = path.count(b"/") + 1  # new objects: the file, and each folder above it
            used_then = used + size + size // 1000 + made * _BLOCK
            if size > self.file_bytes:
                reason = f"larger than {size_words(self.file_bytes)} (history.max_file_bytes)"
            elif taken + size > self.commit_bytes:
                reason = (
                    f"the commit would exceed {size_words(self.commit_bytes)} "
                    "(history.max_commit_bytes)"
                )
            elif used_then > spare.bytes or files + made > spare.files:
                reason = f"only {size_words(max(spare.bytes, 0))} are left on safetyd's disk"
            else:
                taken, used, files = taken + size, used_then, files + made
                continue
            found.append(LeftOut(path, size, reason))
        return found


Limits = Callable[[], CommitLimits]


class FolderChanges(NamedTuple):
    """The paths of changed files that exist, and of deleted files."""

    present: list[bytes]
    gone: list[bytes]

    def __bool__(self) -> bool:
        return bool(self.present or self.gone)


class IndexedFolder:
    """A folder and git's index of it. `git` uses them as work tree and index.

    `within` limits it to a subfolder. No other process uses the index. Files that exceed the
    `limits` are `left_out`: the index has their previous version, or none.
    """

    def __init__(self, git: Git, top: Path, within: str, limits: CommitLimits) -> None:
        self.git = git
        self._limits = limits
        self.left_out: list[LeftOut] = []
        self._top = os.fsencode(top)
        self._within = ("--", within) if within else ()

    def changes(self, select: Select | None = None) -> FolderChanges:
        """Return the changed paths, all or those that `select` accepts.

        An unreadable file is an error: nothing is skipped silently.
        """
        differing = self.git.read(
            "diff-files", "-z", "--name-only", "--ignore-submodules=all", *self._within
        )
        others = self.git.run("ls-files", "-z", "--others", "--exclude-standard", *self._within)
        if _CLOSED in others.said:
            said = others.said.decode(errors="replace").strip().splitlines()[0]
            raise HistoryError(f"{said}; let safetyd's user read it, or let git ignore it")
        new = (path for path in others.out.split(b"\0")[:-1] if not _left_out(path))
        found = [*filter(None, differing.split(b"\0")), *new]
        return self._sorted_out([path for path in found if select is None or select(path)])

    def unchanged_since(self, moment_ns: int) -> Select:
        """Return a function that selects paths last changed before a time of the file clock."""

        def select(path: bytes) -> bool:
            full = os.path.join(self._top, path)  # noqa: PTH118 - bytes
            while full:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    return os.lstat(full).st_ctime_ns < moment_ns
                full = full.rpartition(b"/")[0]  # deleted: use the time of its folder
            return False

        return select

    def left_alone(self) -> Iterator[tuple[bytes, str]]:
        """Yield paths that are not in the index, and why; folders end with a slash."""
        listing = ("ls-files", "-z", "--others", "--exclude-standard")
        for path in self.git.read(*listing, *self._within).split(b"\0")[:-1]:
            yield path, _left_out(path) or "was not in the file history"
        ignored = self.git.read(*listing, "--ignored", "--directory", *self._within)
        for path in ignored.split(b"\0")[:-1]:
            yield path, "is ignored by git"

    def take_in(self, select: Select | None = None) -> None:
        """Update the index from the folder, or from the selected part."""
        for left in range(_TRIES, 0, -1):
            try:
                self._take(self._within_limits(self.changes(select)))
            except GitFailed as exc:
                # If a file becomes shorter while git reads it, git fails and leaves its lock.
                (self.git.folder / "index.lock").unlink(missing_ok=True)
                if left == 1:
                    raise HistoryError(f"{exc}; files may change while they are read") from exc
            else:
                return

    def tree(self) -> str:
        """Write the index as a tree and return its name."""
        return self.git.line("write-tree")

    def forget(self, paths: Sequence[bytes]) -> None:
        self._index("--force-remove", paths)

    def without_late(
        self,
        tree: str,
        changes: list[Change],
        select: Select | None,
        only: Mapping[bytes, Entry | None] | None,
    ) -> tuple[str, list[Change]]:
        """Undo index changes of files that changed between selecting and reading.

        With `only`, also undo every file whose content differs from the given one.
        """
        late = [
            change
            for change in changes
            if (select is not None and not select(change.path))
            or (only is not None and only.get(change.path, change) != change.new)
        ]
        if not late:
            return tree, changes
        self._put_back(late)
        return self.tree(), [change for change in changes if change not in late]

    def _put_back(self, changes: Sequence[Change]) -> None:
        """Restore the index entries from before these changes."""
        none = Entry("0", "0" * 40)
        lines = (
            f"{entry.mode} {entry.object}\t".encode() + change.path
            for change in changes
            for entry in (change.old or none,)
        )
        listed = b"\0".join(lines) + b"\0"
        self.git.read("update-index", "-z", "--index-info", stdin=listed)

    def _within_limits(self, changes: FolderChanges) -> FolderChanges:
        self.left_out = []
        if not changes:
            return changes
        self.left_out = self._limits.exceeded(
            self._top, changes.present, self.git.folder / "objects"
        )
        large = {each.path for each in self.left_out}
        return FolderChanges([path for path in changes.present if path not in large], changes.gone)

    def _take(self, changes: FolderChanges) -> None:
        if changes.gone:
            self._index("--force-remove", changes.gone)
        if changes.present:
            self._index("--replace", changes.present)

    def _index(self, option: str, paths: Sequence[bytes]) -> None:
        listed = b"\0".join(paths) + b"\0"
        self.git.read(*("update-index", "--add", "--remove", option, "-z", "--stdin"), stdin=listed)

    def _sorted_out(self, paths: list[bytes]) -> FolderChanges:
        found = FolderChanges([], [])
        closed: list[bytes] = []
        parents = dict[bytes, bool]()
        for path in dict.fromkeys(paths):
            try:
                there = self._is_file(path, parents)
            except PermissionError:
                closed.append(path)
            else:
                (found.present if there else found.gone).append(path)
        if closed:
            raise HistoryError(
                f"cannot read {named(closed)}; let safetyd's user read it, or let git ignore it"
            )
        return found

    def _is_file(self, path: bytes, parents: dict[bytes, bool]) -> bool:
        """Return True if the path is a file or link, and not behind a link."""
        parent = path.rpartition(b"/")[0]
        if parent and not self._is_folder(parent, parents):
            return False
        full = os.path.join(self._top, path)  # noqa: PTH118 - bytes
        try:
            mode = os.lstat(full).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return False
        if stat.S_ISREG(mode) and not os.access(full, os.R_OK, effective_ids=True):
            raise PermissionError
        return stat.S_ISREG(mode) or stat.S_ISLNK(mode)

    def _is_folder(self, path: bytes, known: dict[bytes, bool]) -> bool:
        """Return True if the path is a folder, and not behind a link. It may be deeply nested."""
        unknown = list[bytes]()
        while path and path not in known:
            unknown.append(path)
            path = path.rpartition(b"/")[0]
        above = known.get(path, True)
        for folder in reversed(unknown):
            try:
                mode = os.lstat(os.path.join(self._top, folder)).st_mode  # noqa: PTH118 - bytes
            except (FileNotFoundError, NotADirectoryError):
                mode = 0
            known[folder] = above = above and stat.S_ISDIR(mode)
        return above


def _left_out(path: bytes) -> str:
    """Return why a path that git lists is never committed, or an empty text."""
    if path.endswith(b"/"):
        return "is a repository"  # a nested repository has its own history
    if any(name.lower() == b".git" for name in path.split(b"/")):
        return "has a name that git rejects"
    return ""


def tree_changes(git: Git, old: str, new: str, *, counted: bool = True) -> list[Change]:
    """Return the differences of two trees by path, with line counts if `counted`."""
    options = ("--raw", "--numstat") if counted else ("--raw",)
    plain = ("--no-renames", "--no-ext-diff", "--no-textconv", "--no-abbrev")
    out = git.read("diff-tree", "-r", "-z", *plain, *options, old, new)
    records = iter(out.split(b"\0")[:-1])
    found = dict[bytes, Change]()
    for record in records:
        if record.startswith(b":"):
            path = next(records)
            found[path] = _change(record.decode(), path)
        else:
            added, removed, path = record.split(b"\t", 2)
            found[path] = found[path]._replace(added=_lines(added), removed=_lines(removed))
    return list(found.values())


def tree_entries(git: Git, tree: str) -> Iterator[tuple[bytes, Entry]]:
    """Yield all paths of a tree with their content."""
    for record in git.read("ls-tree", "-r", "-z", "--full-tree", tree).split(b"\0")[:-1]:
        about, _, path = record.partition(b"\t")
        mode, _, name = about.decode().split(" ")
        yield path, Entry(mode, name)


def _change(record: str, path: bytes) -> Change:
    old_mode, new_mode, old, new, _ = record[1:].split(" ")
    return Change(path, _entry(old_mode, old), _entry(new_mode, new))


def _entry(mode: str, name: str) -> Entry | None:
    return None if mode == "000000" else Entry(mode, name)


def _lines(number: bytes) -> int:
    return int(number) if number.isdigit() else 0  # a dash for binary files


def _size(top: bytes, path: bytes) -> int:
    try:
        return os.lstat(os.path.join(top, path)).st_size  # noqa: PTH118 - bytes
    except OSError:
        return 0  # deleted; git will notice
