"""Rolls back files of a project: plans the changes, then writes the files.

The current state is committed first, and the result of the rollback afterwards.
"""

import contextlib
import os
import posixpath
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from safetyd.core.messages.rollback import RollbackKind
from safetyd.extras.file_history.commit_reading import lacking
from safetyd.extras.file_history.commit_writing import CommitWriter
from safetyd.extras.file_history.file_restore import LINK, FileRestore, may_write, stored
from safetyd.extras.file_history.folder_changes import REPOSITORY, tree_changes, tree_entries
from safetyd.extras.file_history.git_process import Git
from safetyd.extras.file_history.history_records import (
    MOST_NAMED,
    Change,
    CommitMade,
    CommitOrder,
    Entry,
    HistoryError,
    PathElsewhere,
    StoppedHalfway,
    named,
    shown,
)
from safetyd.extras.file_history.repository_layout import is_below
from safetyd.operators.contract.history_contract import FileEffect, LeftAlone, RollbackDone

BEFORE: Final = "before a rollback"  # also used if nothing is rolled back in the end
NOT_WRITTEN: Final = "has a name that safetyd never writes"
# the exit code of git merge-file is the number of conflicts, higher on errors
_CONFLICTS: Final = 127


class ProjectRollback:
    """A rollback to `target`, or a revert of it. `paths` limit a rollback."""

    def __init__(
        self, work: CommitWriter, kind: RollbackKind, target: str, paths: Sequence[str]
    ) -> None:
        self._work = work
        self._git = work.git
        self._kind = kind
        self._target = target
        self._within = os.fsencode(work.layout.within)
        self._paths = below_root(work.layout.root, work.layout.within, paths)
        self._restore = FileRestore(work.layout.top)

    def make(self, project: str, order: CommitOrder, begin: Callable[[str], None]) -> RollbackDone:
        """Commit the current state, restore files, and commit the result.

        If something would be lost, refuse and change nothing. `begin` is called before the first
        file changes, with the commit of the current state.
        """
        # The rollback is not the author of the current state.
        words = f"{BEFORE}: {order.description}"
        kept = self._work.keep(CommitOrder(why="before", at=order.at, description=words))
        left_out = {each.path: each.why for each in self._work.indexed.left_out}
        # No commit has the current content of these.
        planned = [change for change in self._planned(kept) if change.path not in left_out]
        changes = [change for change in planned if may_write(change.path)]
        made: CommitMade | None = None
        if changes:
            self._restore.check(changes)
            since = self._work.indexed.changes(lambda path: path not in left_out)
            if since:
                raise HistoryError(
                    f"no file was restored, because {named([*since.present, *since.gone])} changed "
                    "in the meantime; pause the agents that work there and try again"
                )
            begin(kept)
            made = self._applied(kept, changes, order)
        skipped = {one.path: NOT_WRITTEN for one in planned if not may_write(one.path)} | left_out
        others = self._work.indexed.left_alone()
        left = [
            *lacking(self._git, self._target),
            *skipped.items(),
            *((path, why) for path, why in others if path not in skipped),
        ]
        effects = tuple(FileEffect(self._shown(one.path), one.effect) for one in changes)
        counts = Counter(one.what for one in effects)
        return RollbackDone(
            ok=True,
            project=project,
            kept=kept,
            made=made.commit if made else "",
            files=len(changes),
            agents=(),
            paths=tuple(one.path for one in effects[:MOST_NAMED]),
            changes=effects[:MOST_NAMED],
            created=counts["created"],
            restored=counts["restored"],
            deleted=counts["deleted"],
            still_deleted=self._still_deleted(),
            left=tuple(LeftAlone(self._shown(path), why) for path, why in left[:MOST_NAMED]),
            left_count=len(left),
        )

    def commit_stopped(self, order: CommitOrder) -> None:
        """Commit only the files that the rollback restored before it stopped halfway."""
        changes = self._planned(self._work.newest())
        self._restore.remove_leftovers(changes)
        back = {change.path: change.new for change in changes}
        self._work.commit(replace(order, target=self._target), back.__contains__, back)

    def _planned(self, kept: str) -> list[Change]:
        """Return the changes; `kept` is the commit of the current state."""
        if self._kind == "revert":
            return _without(self._git, kept, self._target)
        changes = _back_to(self._git, kept, self._target, self._paths)
        return [one for one in changes if is_below(one.path, self._within)]

    def _applied(
        self, kept: str, changes: Sequence[Change], order: CommitOrder
    ) -> CommitMade | None:
        """Restore files and commit only those."""
        words = f"{self._kind} {'of' if self._kind == 'revert' else 'to'} {self._target[:12]}"
        words = f"{words}: {order.description}"
        order = replace(order, target=self._target, description=words)
        ours = frozenset(change.path for change in changes)
        with stored(self._git) as fill:
            try:
                self._restore.apply(changes, fill)
                return self._work.commit(order, ours.__contains__)
            except (OSError, HistoryError) as exc:
                # Otherwise somebody else would appear as the author of the restored files.
                with contextlib.suppress(OSError, HistoryError):
                    half = replace(order, description=f"half of {words}")
                    self._work.commit(half, ours.__contains__)
                done = f"{self._restore.done} of {len(changes)} files are restored"
                why = f"stopped halfway: {exc}; {done}. Commit {kept[:12]} has the previous state"
                raise StoppedHalfway(why, kept) from exc

    def _still_deleted(self) -> int:
        """Return how many files the commit itself deleted; the rollback does not restore them."""
        parents = _parents(self._git, self._target)
        if self._kind == "revert" or len(parents) != 1:
            return 0
        changes = _files(tree_changes(self._git, parents[0], self._target, counted=False))
        gone = (change.path for change in changes if change.new is None)
        wanted = self._paths or ([self._within] if self._within else [])
        return sum(not wanted or any(is_below(one, path) for path in wanted) for one in gone)

    def _shown(self, path: bytes) -> str:
        return shown(path.removeprefix(self._within + b"/") if self._within else path)


def below_root(root: Path, within: str, paths: Iterable[str]) -> list[bytes]:
    """Return paths as stored in the history; they are absolute, or relative to the project."""
    found = list[bytes]()
    for given in paths:
        path = posixpath.normpath(posixpath.join(str(root), given))
        if not is_below(_bytes(path), _bytes(str(root))) or "\0" in path:
            raise PathElsewhere(f"{given!r} is not in {root}")
        below = posixpath.relpath(path, root)
        if below == ".":
            return [_bytes(within)] if within else []
        found.append(_bytes(posixpath.join(within, below)))
    return found


def _back_to(git: Git, kept: str, commit: str, paths: Sequence[bytes]) -> list[Change]:
    """Return the changes that restore a commit: all, or below `paths`."""
    changes = _files(tree_changes(git, kept, commit, counted=False))
    if not paths:
        return changes
    known = {path for tree in (kept, commit) for path, _ in tree_entries(git, tree)}
    unknown = [path for path in paths if not any(is_below(one, path) for one in known)]
    if unknown:
        raise HistoryError(f"nothing was changed: {named(unknown)} is in neither commit")
    return [change for change in changes if any(is_below(change.path, path) for path in paths)]


def _without(git: Git, kept: str, commit: str) -> list[Change]:
    """Return the changes that undo one commit but not later ones.

    If the same lines were changed later, refuse and name the files.
    """
    parents = _parents(git, commit)
    if len(parents) != 1:
        raise HistoryError(f"{commit[:12]} has no previous commit to restore")
    undone = _files(tree_changes(git, commit, parents[0], counted=False))
    now = dict(tree_entries(git, kept))
    changes, conflicts = list[Change](), list[bytes]()
    for change in undone:
        here = now.get(change.path)
        if here == change.new:
            continue
        merged = change.new if here == change.old else _merged(git, change, here)
        if merged is None and here != change.old:
            conflicts.append(change.path)
        elif merged != here:
            changes.append(Change(change.path, here, merged))
    if conflicts:
        raise HistoryError(
            f"no file was restored, because {named(conflicts, 20)} changed again since "
            f"{commit[:12]}; roll back to a commit, or fix these files manually"
        )
    return changes


def _parents(git: Git, commit: str) -> list[str]:
    return git.line("rev-list", "--parents", "--no-walk", commit).split()[1:]


def _merged(git: Git, change: Change, here: Entry | None) -> Entry | None:
    """Return the merged file with later changes of other lines, or None on a conflict."""
    sides = (here, change.old, change.new)
    if any(side is None or side.mode in {LINK, REPOSITORY} for side in sides):
        return None
    now, old, new = (side for side in sides if side is not None)
    if len({now.mode, old.mode, new.mode}) > 1:
        return None
    with tempfile.TemporaryDirectory(prefix="safetyd-") as place:
        names = [str(Path(place) / name) for name in ("now", "undone", "before")]
        for name, side in zip(names, (now, old, new), strict=True):
            Path(name).write_bytes(git.read("cat-file", "blob", side.object))
        merging = git.run("merge-file", "-p", "-q", *names, codes=(*range(_CONFLICTS + 1), 255))
    if merging.code:
        return None
    return Entry(now.mode, git.line("hash-object", "-w", "--stdin", stdin=merging.out))


def _files(changes: Iterable[Change]) -> list[Change]:
    """Skip nested repositories: they have their own history."""
    return [
        change
        for change in changes
        if all(side is None or side.mode != REPOSITORY for side in (change.old, change.new))
    ]


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
