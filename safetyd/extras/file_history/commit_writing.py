"""Commits a folder, with a message that says who did what and who approved it."""

import posixpath
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from safetyd.extras.file_history.commit_messages import read, reference, value_line, written
from safetyd.extras.file_history.folder_changes import (
    REPOSITORY,
    CommitLimits,
    IndexedFolder,
    Select,
    tree_changes,
)
from safetyd.extras.file_history.git_process import Git
from safetyd.extras.file_history.history_records import (
    Change,
    CommitMade,
    CommitOrder,
    Entry,
    HistoryError,
    LeftOut,
)
from safetyd.extras.file_history.private_store import NEWEST, PrivateStore

_NONE: Final = "0" * 40
_WHO: Final = {
    "GIT_AUTHOR_NAME": "safetyd",
    "GIT_AUTHOR_EMAIL": "safetyd@localhost",
    "GIT_COMMITTER_NAME": "safetyd",
    "GIT_COMMITTER_EMAIL": "safetyd@localhost",
}


class CommitWriter:
    """Commits a folder to its repository, which the caller has locked.

    All sessions share one chain of commits; each session's ref points to its newest commit.
    """

    def __init__(
        self, store: PrivateStore, git: Git, state_paths: Sequence[str], limits: CommitLimits
    ) -> None:
        self._store = store
        self._state_paths = state_paths
        self._limits = limits
        self.git = git
        self.layout = layout = store.layout()
        looking = git.using(
            GIT_WORK_TREE=str(layout.top), GIT_INDEX_FILE=str(store.folder / "index")
        )
        self.indexed = IndexedFolder(looking, layout.top, layout.within, limits)

    def commit(
        self,
        order: CommitOrder,
        select: Select | None = None,
        only: Mapping[bytes, Entry | None] | None = None,
    ) -> CommitMade | None:
        """Commit the folder or the selected part of it. Return None if nothing changed.

        With `only`, commit only those selected files that have the given content.
        """
        self.indexed.take_in(select)
        tree = self.indexed.tree()
        newest = self.newest()
        before = f"{newest}^{{tree}}" if newest else self.git.line("mktree")
        changes = tree_changes(self.git, before, tree)
        inner = [change.path for change in changes if change.new and change.new.mode == REPOSITORY]
        if inner:  # created between listing and reading
            self.indexed.forget(inner)
            tree = self.indexed.tree()
            changes = [change for change in changes if change.path not in inner]
        tree, changes = self.indexed.without_late(tree, changes, select, only)
        left_out = _words(self.indexed.left_out)
        if not changes and self._is_noted(newest, order, left_out):
            return None
        commit = self._written(replace(order, left_out=left_out), tree, newest, changes)
        added = sum(change.added for change in changes)
        removed = sum(change.removed for change in changes)
        return CommitMade(commit, len(changes), added, removed, tuple(self.indexed.left_out))

    def newest(self) -> str:
        return self._store.find(NEWEST)

    def keep(self, order: CommitOrder) -> str:
        """Commit the current state of the folder if it changed, and return its commit."""
        made = self.commit(order)
        kept = made.commit if made else self.newest()
        if not kept:
            raise HistoryError("there is no commit yet")
        return kept

    def _written(
        self, order: CommitOrder, tree: str, parent: str, changes: Sequence[Change]
    ) -> str:
        """Write a commit as safetyd, with the order's date, and move the refs to it."""
        at = f"@{int(order.at.timestamp())} +0000"
        signed = self.git.using(**_WHO, GIT_AUTHOR_DATE=at, GIT_COMMITTER_DATE=at)
        message = written(order, only_state=self._only_state(changes)).encode()
        parents = ("-p", parent) if parent else ()
        commit = signed.line("commit-tree", tree, *parents, stdin=message)
        refs = f"update {NEWEST} {commit} {parent or _NONE}\n"
        refs += f"update {reference(order.agent, order.session)} {commit}\n"
        self.git.read("update-ref", "--stdin", stdin=refs.encode())
        self._store.pack(self.git, self._limits)
        return commit

    def _only_state(self, changes: Sequence[Change]) -> bool:
        """Return True if only state files and folders changed."""
        within = self.layout.within
        below = [
            posixpath.normpath(posixpath.join(within, path.strip("/")))
            for path in self._state_paths
        ]
        state = [path.encode("utf-8", "surrogateescape") for path in below]
        return bool(state) and all(
            any(change.path == path or change.path.startswith(path + b"/") for path in state)
            for change in changes
        )

    def _is_noted(self, commit: str, order: CommitOrder, left_out: str) -> bool:
        """Return True if no files are missing or the last commit already names them."""
        if not left_out or order.why not in {"after", "failed"}:
            return True
        if not commit:
            return False
        message = self.git.read("log", "-1", "--format=%B", commit).decode(errors="replace")
        return read(message).left_out == value_line(left_out)


def _words(left_out: Sequence[LeftOut]) -> str:
    """Return the number and names of the files missing from a commit, or an empty text."""
    if not left_out:
        return ""
    count = "1 file" if len(left_out) == 1 else f"{len(left_out)} files"
    return f"{count}: {'; '.join(map(str, left_out))}"
