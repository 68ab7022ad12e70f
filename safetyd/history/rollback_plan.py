"""Which files a rollback changes, and into what: a pure comparison of trees that are kept."""

import os
import posixpath
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from safetyd.core.messages.rollback import RollbackKind
from safetyd.history.file_restore import LINK
from safetyd.history.folder_changes import REPOSITORY, tree_changes, tree_entries
from safetyd.history.git_process import Git
from safetyd.history.history_records import Change, Entry, HistoryError, PathElsewhere, named
from safetyd.history.repository_layout import Layout

_CONFLICTS: Final = 127  # git merge-file ends with the number of them, or more if it cannot merge


def planned(
    git: Git, layout: Layout, kind: RollbackKind, ends: tuple[str, str], paths: Sequence[bytes]
) -> list[Change]:
    """Return what a rollback changes; `ends` are the commit of the folder now and the target."""
    kept, target = ends
    if kind == "revert":
        return without(git, kept, target)
    changes = back_to(git, kept, target, paths)
    within = os.fsencode(layout.within)
    return [path for path in changes if not within or path.path.startswith(within + b"/")]


def back_to(git: Git, kept: str, commit: str, paths: Sequence[bytes]) -> list[Change]:
    """Return what makes files again what they were in a commit: all, or those below `paths`."""
    changes = tree_changes(git, kept, commit, counted=False)
    if not paths:
        return _files(changes)
    known = {path for tree in (kept, commit) for path, _ in tree_entries(git, tree)}
    unknown = [path for path in paths if not any(_below(one, path) for one in known)]
    if unknown:
        raise HistoryError(f"nothing was changed: {named(unknown)} is in neither commit")
    return _files(change for change in changes if any(_below(change.path, path) for path in paths))


def without(git: Git, kept: str, commit: str) -> list[Change]:
    """Return what undoes one commit and leaves alone what came later.

    Where the same lines were changed later, it refuses and names the files.
    """
    parents = _parents(git, commit)
    if len(parents) != 1:
        raise HistoryError(f"{commit[:12]} has no commit before it that could be brought back")
    undone = tree_changes(git, commit, parents[0], counted=False)
    now = _entries(git, kept, {change.path for change in undone})
    changes, conflicts = list[Change](), list[bytes]()
    for change in _files(undone):
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
            f"nothing was changed: {named(conflicts, 20)} changed again since {commit[:12]}; "
            "go back to a commit, or mend them by hand"
        )
    return changes


def deleted_by(git: Git, commit: str, paths: Sequence[bytes]) -> list[bytes]:
    """Return which files a commit deleted: all, or those below `paths`."""
    parents = _parents(git, commit)
    if len(parents) != 1:
        return []
    changes = _files(tree_changes(git, parents[0], commit, counted=False))
    gone = [change.path for change in changes if change.new is None]
    return [one for one in gone if not paths or any(_below(one, path) for path in paths)]


def below_root(root: Path, within: str, paths: Iterable[str]) -> list[bytes]:
    """Return paths as the history has them; they are absolute, or relative to the project."""
    found = list[bytes]()
    for given in paths:
        path = posixpath.normpath(posixpath.join(str(root), given))
        if not _below(path.encode("utf-8", "surrogateescape"), _bytes(root)) or "\0" in path:
            raise PathElsewhere(f"{given!r} is not in {root}")
        below = posixpath.relpath(path, root)
        if below == ".":
            return [within.encode("utf-8", "surrogateescape")] if within else []
        found.append(posixpath.join(within, below).encode("utf-8", "surrogateescape"))
    return found


def _parents(git: Git, commit: str) -> list[str]:
    return git.line("rev-list", "--parents", "--no-walk", commit).split()[1:]


def _merged(git: Git, change: Change, here: Entry | None) -> Entry | None:
    """Return what a file becomes if later changes of other lines stay, or None: a conflict."""
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


def _entries(git: Git, tree: str, paths: set[bytes]) -> dict[bytes, Entry]:
    return {path: entry for path, entry in tree_entries(git, tree) if path in paths}


def _files(changes: Iterable[Change]) -> list[Change]:
    """Leave out repositories within the folder: they keep their own history."""
    return [
        change
        for change in changes
        if all(side is None or side.mode != REPOSITORY for side in (change.old, change.new))
    ]


def _below(path: bytes, folder: bytes) -> bool:
    return path == folder or path.startswith(folder.rstrip(b"/") + b"/")


def _bytes(path: Path) -> bytes:
    return str(path).encode("utf-8", "surrogateescape")
