"""A tree becomes a commit, with a message that says who did what and who permitted it."""

import posixpath
from collections.abc import Sequence
from typing import Final

from safetyd.history.commit_messages import written
from safetyd.history.git_process import Git
from safetyd.history.history_records import Change, CommitMade, CommitOrder

_WHO: Final = {
    "GIT_AUTHOR_NAME": "safetyd",
    "GIT_AUTHOR_EMAIL": "safetyd@localhost",
    "GIT_COMMITTER_NAME": "safetyd",
    "GIT_COMMITTER_EMAIL": "safetyd@localhost",
}


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
    git: Git, order: CommitOrder, place: tuple[str, str], changes: Sequence[Change], *, state: bool
) -> CommitMade:
    """Write a commit of a tree after another; `place` is both. No ref leads to it yet."""
    tree, parent = place
    message = written(order, only_state=state).encode()
    parents = ("-p", parent) if parent else ()
    commit = signed(git, order).line("commit-tree", tree, *parents, stdin=message)
    added = sum(change.added for change in changes)
    removed = sum(change.removed for change in changes)
    return CommitMade(commit, len(changes), added, removed)
