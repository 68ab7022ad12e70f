"""Commits in a store of safetyd's own. The user's repository is neither read nor written by git."""

import contextlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Final

from safetyd.history.commit_messages import reference
from safetyd.history.commit_writing import (
    CommitLimits,
    Limits,
    StatePaths,
    is_noted,
    write_commit,
)
from safetyd.history.folder_changes import (
    REPOSITORY,
    IndexedFolder,
    Select,
    tree_changes,
)
from safetyd.history.git_process import Git
from safetyd.history.history_records import CommitMade, CommitOrder, Entry, HistoryError
from safetyd.history.private_store import NEWEST, PrivateStore
from safetyd.history.repository_layout import Layout
from safetyd.history.user_ignores import ignored_everywhere

_CHUNK: Final = 500
_NONE: Final = "0" * 40


class ShadowCommits:
    """One line of commits for a project; each session's ref is at its newest."""

    def __init__(
        self, project: str, root: Path, state: StatePaths, store: Path, limits: Limits
    ) -> None:
        self._store = PrivateStore(project, root, store)
        self._state = state
        self._limits = limits

    @property
    def folder(self) -> Path:
        return self._store.folder

    def layout(self) -> Layout:
        return self._store.layout()

    def moved(self) -> str:
        return self._store.moved()

    def reading(self) -> Git:
        """Return git for what is kept, or say that nothing is."""
        if not self._store.exists:
            raise HistoryError("nothing is kept yet")
        return self._store.git()

    def commits(self) -> Iterator[list[str]]:
        """Yield the names of all commits, the newest first, some at a time."""
        if not self._store.exists or not _resolved(self._store.git(), NEWEST):
            return
        for page in count():
            listing = ("rev-list", f"--max-count={_CHUNK}", f"--skip={page * _CHUNK}", NEWEST)
            names = self._store.git().read(*listing).decode().split()
            yield names
            if len(names) < _CHUNK:
                return

    def find(self, commit: str) -> str:
        """Return the full name of a commit; whatever is in the store is ours."""
        if not self._store.exists:
            return ""
        return _resolved(self._store.git(), commit)

    def finish(self) -> None:
        self._store.finish()

    @contextlib.contextmanager
    def working(self) -> Iterator["ShadowWork"]:
        """Own the store, to commit or to bring files back."""
        with self._store.locked() as git:
            layout = self.layout()
            self._store.note_excludes(layout, self._everywhere)
            yield ShadowWork(self._store, git, layout, self._state, self._limits())

    @cached_property
    def _everywhere(self) -> Path | None:
        return ignored_everywhere(self._store.git())


class ShadowWork:
    """What can be done while the store is ours."""

    def __init__(
        self,
        store: PrivateStore,
        git: Git,
        layout: Layout,
        state: StatePaths,
        limits: CommitLimits,
    ) -> None:
        self._store = store
        self._limits = limits
        self.git = git
        self._state = state
        self.layout = layout
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
        """Keep the folder, or what is selected of it; return None if nothing changed.

        With `only`, take the selected files that are as it says, and no others.
        """
        self.indexed.take_in(select)
        tree = self.indexed.tree()
        newest = self.newest()
        before = f"{newest}^{{tree}}" if newest else self.git.line("mktree")
        changes = tree_changes(self.git, before, tree)
        inner = [change.path for change in changes if change.new and change.new.mode == REPOSITORY]
        if inner:  # made between the listing and the reading
            self.indexed.forget(inner)
            tree = self.indexed.tree()
            changes = [change for change in changes if change.path not in inner]
        tree, changes = self.indexed.without_late(tree, changes, select, only)
        left_out = self.indexed.left_out
        if not changes and is_noted(self.git, newest, order, left_out):
            return None
        state = self._state.cover(changes, self.layout.within)
        made = write_commit(
            self.git, order, (tree, newest), changes, state=state, left_out=left_out
        )
        refs = f"update {NEWEST} {made.commit} {newest or _NONE}\n"
        refs += f"update {reference(order.agent, order.session)} {made.commit}\n"
        self.git.read("update-ref", "--stdin", stdin=refs.encode())
        self._store.pack(self.git, self._limits)
        return made

    def newest(self) -> str:
        return _resolved(self.git, NEWEST)

    def keep(self, order: CommitOrder) -> str:
        """Return the commit that has the folder as it is now."""
        made = self.commit(order)
        kept = made.commit if made else self.newest()
        if not kept:
            raise HistoryError("nothing is kept yet")
        return kept


def _resolved(git: Git, name: str) -> str:
    wanted = f"{name}^{{commit}}"
    return git.line("rev-parse", "--verify", "--quiet", wanted, codes=(0, 1, 128))
