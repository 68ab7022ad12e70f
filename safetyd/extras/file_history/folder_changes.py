"""What differs between a folder and an index, and how that is taken into the index.

git compares times and sizes with those of its index, so files that nobody touched are not read.
Links are not followed, and pipes and devices are no files.
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

REPOSITORY: Final = "160000"  # the mode of a repository within another
_TRIES: Final = 4  # while files change as they are read
_CLOSED: Final = b"could not open directory"
_BLOCK: Final = 4096  # the least that an object takes on a disk

Select = Callable[[bytes], bool]


def no_limit(_directory: Path) -> Spare:
    return Spare(math.inf, math.inf)


class CommitLimits(NamedTuple):
    """How large a file and all changed files of a commit may be, and what a disk has to spare."""

    file_bytes: float = math.inf
    commit_bytes: float = math.inf
    spare: Callable[[Path], Spare] = no_limit

    def exceeded(self, top: bytes, paths: Iterable[bytes], objects: Path) -> list[LeftOut]:
        """Return the files that do not fit: the smallest files are taken in first.

        `objects` is the folder that git writes them to.
        """
        spare = self.spare(objects)
        sizes = sorted((_size(top, path), path) for path in paths)
        if spare.bytes < _BLOCK or spare.files < 1:
            raise HistoryError(
                f"the disk of {objects} is nearly full, and safetyd needs the rest of it; make room"
            )
        found = list[LeftOut]()
        taken, used, files = 0, 0, 0
        for size, path in sizes:
            made = path.count(b"/") + 1  # objects: of the file, and of each folder above it
            used_then = used + size + size // 1000 + made * _BLOCK
            if size > self.file_bytes:
                reason = f"larger than {size_words(self.file_bytes)} (history.max_file_bytes)"
            elif taken + size > self.commit_bytes:
                reason = (
                    f"the commit would exceed {size_words(self.commit_bytes)} "
                    "(history.max_commit_bytes)"
                )
            elif used_then > spare.bytes or files + made > spare.files:
                reason = f"safetyd's disk has {size_words(max(spare.bytes, 0))} to spare"
            else:
                taken, used, files = taken + size, used_then, files + made
                continue
            found.append(LeftOut(path, size, reason))
        return found


Limits = Callable[[], CommitLimits]


class FolderChanges(NamedTuple):
    """Paths of files that are there, and of such as are not there any more."""

    present: list[bytes]
    gone: list[bytes]

    def __bool__(self) -> bool:
        return bool(self.present or self.gone)


class IndexedFolder:
    """A folder beside an index. `git` has its work tree and that index; `within` narrows it.

    The index is in git's own folder, and nobody else uses it meanwhile. Files beyond the `limits`
    are `left_out`: the index has them as they were before, or not at all.
    """

    def __init__(self, git: Git, top: Path, within: str, limits: CommitLimits) -> None:
        self.git = git
        self._limits = limits
        self.left_out: list[LeftOut] = []
        self._top = os.fsencode(top)
        self._within = ("--", within) if within else ()

    def changes(self, select: Select | None = None) -> FolderChanges:
        """Return what to take in: everything, or the paths for which `select` returns True.

        A file that cannot be read is an error: nothing is left out.
        """
        differing = self.git.read(
            "diff-files", "-z", "--name-only", "--ignore-submodules=all", *self._within
        )
        others = self.git.run("ls-files", "-z", "--others", "--exclude-standard", *self._within)
        if _CLOSED in others.said:
            said = others.said.decode(errors="replace").strip().splitlines()[0]
            raise HistoryError(f"{said}; let safetyd's user read it, or have git ignore it")
        new = (path for path in others.out.split(b"\0")[:-1] if not _left_out(path))
        found = [*filter(None, differing.split(b"\0")), *new]
        return self._sorted_out([path for path in found if select is None or select(path)])

    def unchanged_since(self, moment_ns: int) -> Select:
        """Return what selects paths that were last changed before a moment of the file clock."""

        def select(path: bytes) -> bool:
            full = os.path.join(self._top, path)  # noqa: PTH118 - bytes
            while full:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    return os.lstat(full).st_ctime_ns < moment_ns
                full = full.rpartition(b"/")[0]  # it is gone: when did its folder change?
            return False

        return select

    def left_alone(self) -> Iterator[tuple[bytes, str]]:
        """Yield what is in the folder and not in the index, and why; folders end with a slash."""
        listing = ("ls-files", "-z", "--others", "--exclude-standard")
        for path in self.git.read(*listing, *self._within).split(b"\0")[:-1]:
            yield path, _left_out(path) or "was not in the history"
        ignored = self.git.read(*listing, "--ignored", "--directory", *self._within)
        for path in ignored.split(b"\0")[:-1]:
            yield path, "is ignored by git"

    def take_in(self, select: Select | None = None) -> None:
        """Bring the index up to date with the folder, or with what is selected of it."""
        for left in range(_TRIES, 0, -1):
            try:
                self._take(self._within_limits(self.changes(select)))
            except GitFailed as exc:
                # A file that became shorter while git read it ends git, which leaves its lock.
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
        """Take back what changed between the selection and the reading.

        With `only`, take back every file that is not as it says.
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
        """Let the index hold what it held before these changes."""
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
                f"{named(closed)} cannot be read; let safetyd's user read it, or have git ignore it"
            )
        return found

    def _is_file(self, path: bytes, parents: dict[bytes, bool]) -> bool:
        """Say whether there is a file or a link that is not behind a link."""
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
        """Say whether there is a folder that is not behind a link; agents nest them deeply."""
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
    """Say why a path that git lists is in no commit, or nothing."""
    if path.endswith(b"/"):
        return "is a repository of its own"  # and keeps its own history
    if any(name.lower() == b".git" for name in path.split(b"/")):
        return "has a name that git does not take"
    return ""


def tree_changes(git: Git, old: str, new: str, *, counted: bool = True) -> list[Change]:
    """Return how two trees differ, path by path, with numbers of lines if they are `counted`."""
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
    """Yield all paths of a tree and what they hold."""
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
    return int(number) if number.isdigit() else 0  # a dash: what has no lines


def _size(top: bytes, path: bytes) -> int:
    try:
        return os.lstat(os.path.join(top, path)).st_size  # noqa: PTH118 - bytes
    except OSError:
        return 0  # it is gone, and git will notice
