"""A tree becomes a commit, with a message that says who did what and who permitted it."""

import math
import os
import posixpath
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from safetyd.core.events.disk_words import size as size_words
from safetyd.history.commit_messages import read, value_line, written
from safetyd.history.git_process import Git
from safetyd.history.history_records import Change, CommitMade, CommitOrder, HistoryError, LeftOut
from safetyd.host import Spare

_BLOCK: Final = 4096  # the least that an object takes on a disk

_WHO: Final = {
    "GIT_AUTHOR_NAME": "safetyd",
    "GIT_AUTHOR_EMAIL": "safetyd@localhost",
    "GIT_COMMITTER_NAME": "safetyd",
    "GIT_COMMITTER_EMAIL": "safetyd@localhost",
}


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


class StatePaths:
    """The files and folders of a project that hold state, relative to its root."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(posixpath.normpath(path).strip("/") for path in paths)

    def cover(self, changes: Sequence[Change], within: str) -> bool:
        """Say whether nothing else changed; paths of changes begin above `within`."""
        below = [posixpath.normpath(posixpath.join(within, path)) for path in self._paths]
        state = [path.encode("utf-8", "surrogateescape") for path in below]
        return bool(state) and all(
            any(change.path == path or change.path.startswith(path + b"/") for path in state)
            for change in changes
        )


def signed(git: Git, order: CommitOrder) -> Git:
    """Return git that writes in safetyd's name, at the time of the order."""
    at = f"@{int(order.at.timestamp())} +0000"
    return git.using(**_WHO, GIT_AUTHOR_DATE=at, GIT_COMMITTER_DATE=at)


def write_commit(
    git: Git,
    order: CommitOrder,
    place: tuple[str, str],
    changes: Sequence[Change],
    *,
    state: bool,
    left_out: Sequence[LeftOut] = (),
) -> CommitMade:
    """Write a commit of a tree after another; `place` is both. No ref leads to it yet."""
    tree, parent = place
    order = replace(order, left_out=left_out_words(left_out))
    message = written(order, only_state=state).encode()
    parents = ("-p", parent) if parent else ()
    commit = signed(git, order).line("commit-tree", tree, *parents, stdin=message)
    added = sum(change.added for change in changes)
    removed = sum(change.removed for change in changes)
    return CommitMade(commit, len(changes), added, removed, tuple(left_out))


def left_out_words(left_out: Sequence[LeftOut]) -> str:
    """Return how many files a commit lacks and which, or nothing."""
    if not left_out:
        return ""
    count = "1 file" if len(left_out) == 1 else f"{len(left_out)} files"
    return f"{count}: {'; '.join(map(str, left_out))}"


def is_noted(git: Git, commit: str, order: CommitOrder, left_out: Sequence[LeftOut]) -> bool:
    """Return whether the last commit names what an agent's action left out, or that is nothing."""
    if not left_out or order.why not in {"after", "failed"}:
        return True
    if not commit:
        return False
    message = git.read("log", "-1", "--format=%B", commit).decode(errors="replace")
    return read(message).left_out == value_line(left_out_words(left_out))


def _size(top: bytes, path: bytes) -> int:
    try:
        return os.lstat(os.path.join(top, path)).st_size  # noqa: PTH118 - bytes
    except OSError:
        return 0  # it is gone, and git will notice
