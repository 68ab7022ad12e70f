"""The file history of a project: commits, diffs, and rollbacks.

Everything blocks: call it in a worker thread. Errors are raised as `HistoryError`.
"""

import contextlib
import os
import posixpath
import re
import shlex
import stat
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from safetyd.clock import file_time_ns
from safetyd.core.messages.rollback import RollbackKind
from safetyd.extras.file_history import commit_reading
from safetyd.extras.file_history.commit_writing import CommitWriter
from safetyd.extras.file_history.folder_changes import CommitLimits, Select
from safetyd.extras.file_history.git_process import version_problem
from safetyd.extras.file_history.history_records import (
    WHOLE,
    CommitMade,
    CommitOrder,
    CommitPart,
    HistoryError,
)
from safetyd.extras.file_history.private_store import PrivateStore
from safetyd.extras.file_history.project_rollback import ProjectRollback, below_root
from safetyd.extras.file_history.repository_layout import is_below, is_repository
from safetyd.host import user_name
from safetyd.operators.contract.history_contract import CommitRow, RollbackDone

_COMMIT: Final = re.compile(r"[0-9a-f]{4,64}")

Limits = Callable[[], CommitLimits]


class ProjectHistory:
    """The file history of a project; `store` is a folder in safetyd's data directory."""

    def __init__(
        self,
        project: str,
        root: Path,
        state_paths: tuple[str, ...],
        store: Path,
        limits: Limits = CommitLimits,
    ) -> None:
        self.project = project
        self._root = root
        self._state_paths = state_paths
        self._limits = limits
        self._store = PrivateStore(project, root, store)
        self._seen_ns = 0  # all changes before this time are committed

    def problems(self) -> list[str]:
        """Return the problems that prevent commits and rollbacks, each with a fix."""
        found = [version_problem(), self._folder_problem()]
        if not any(found):
            found = [self._repository_problem(), self._write_problem()]
        return list(filter(None, found))

    def commit(self, order: CommitOrder, part: CommitPart = WHOLE) -> CommitMade | None:
        """Commit a part of the folder; return None if nothing changed there since the last commit.

        All paths must be absolute. Paths outside the folder are ignored.
        """
        begun_ns = file_time_ns()
        with self._working() as work:
            made = work.commit(order, self._selected(part, work))
        if not (part.paths or part.apart):
            self._seen_ns = begun_ns if part.until_ns is None else min(begun_ns, part.until_ns)
        return made

    def _selected(self, part: CommitPart, work: CommitWriter) -> Select | None:
        """Return a function that selects the paths of a part, or None for the whole folder."""
        unchanged = None if part.until_ns is None else work.indexed.unchanged_since(part.until_ns)
        if not (part.paths or part.apart):
            return unchanged
        listed = self._below(part.paths or part.apart, work.layout.within)

        def select(path: bytes) -> bool:
            is_listed = any(is_below(path, one) for one in listed)
            return is_listed == bool(part.paths) and (unchanged is None or unchanged(path))

        return select

    def _below(self, paths: Sequence[str], within: str) -> list[bytes]:
        """Return those paths that are in the folder, as stored in the history."""
        root = f"{self._root}/"
        inside = (f"{path}/" for path in paths)
        below = (path.removeprefix(root) for path in inside if path.startswith(root))
        return [os.fsencode(posixpath.join(within, path).rstrip("/")) for path in below]

    def may_lose(self, paths: Sequence[str]) -> bool:
        """Return True if one of the paths may have uncommitted content.

        Return True for every folder, but False if there is no commit yet.
        """
        seen_ns = self._seen_ns or _changed_ns(self._store.folder / "index")
        root = f"{self._root}/"
        for path in paths:
            if not path.startswith(root) or not seen_ns:
                continue
            with contextlib.suppress(OSError):
                found = os.lstat(path)
                if stat.S_ISDIR(found.st_mode) or found.st_ctime_ns >= seen_ns:
                    return True
        return False

    def rows(  # noqa: PLR0913 - each narrows down what is listed
        self,
        limit: int = 20,
        *,
        agent: str = "",
        session: str = "",
        path: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        before: str = "",
    ) -> list[CommitRow]:
        """Return the newest commits, filtered by agent, session, path and time.

        With `before`, only commits before that one.
        """
        layout = self._store.layout()
        paths = below_root(layout.root, layout.within, (path,)) if path else []
        end = self.find(before) if before else ""
        note = {"agent": agent, "session": session}
        wanted = commit_reading.Wanted(note, paths, since, until, end)
        git = self._store.git()
        found = commit_reading.matching(git, self._store.commits(), limit, wanted)
        return commit_reading.rows(git, self.project, found)

    def find(self, commit: str) -> str:
        """Return the full name of a commit."""
        found = self._store.find(commit) if _COMMIT.fullmatch(commit) else ""
        if not found:
            raise HistoryError(
                f"{commit!r} is not a commit of this project; `safetyd history` lists them"
            )
        return found

    def committed_at(self, commit: str) -> datetime:
        """Return the time of a commit."""
        return next(commit_reading.read_commits(self._store.git(), [self.find(commit)])).at

    def show(self, commit: str) -> str:
        """Return a commit's message and the list of changed files."""
        return commit_reading.shown_commit(self._store.git(), self.find(commit))

    def diff(self, commit: str, other: str = "") -> str:
        """Return the diff of a commit, or between two commits. If it is cut, the text says so."""
        ends = self.find(commit), self.find(other) if other else ""
        return commit_reading.shown_diff(self._store.git(), *ends)

    def roll_back(
        self,
        kind: RollbackKind,
        commit: str,
        paths: tuple[str, ...],
        order: CommitOrder,
        begin: Callable[[str], None] = lambda _kept: None,
    ) -> RollbackDone:
        """Restore files; see `ProjectRollback.make`."""
        if paths and kind != "soft":
            raise HistoryError(f"{kind} works only for whole commits; omit the paths, or use soft")
        target = self.find(commit)
        with self._working() as work:
            return ProjectRollback(work, kind, target, paths).make(self.project, order, begin)

    def commit_stopped(
        self, kind: RollbackKind, commit: str, paths: tuple[str, ...], order: CommitOrder
    ) -> None:
        """Commit only the files that a rollback restored before it stopped halfway."""
        target = self.find(commit)
        with self._working() as work:
            ProjectRollback(work, kind, target, paths).commit_stopped(order)

    def finish(self) -> None:
        """Wait for background work after commits, such as packing."""
        self._store.finish()

    @contextlib.contextmanager
    def _working(self) -> Iterator[CommitWriter]:
        """Lock the repository, to commit or restore."""
        if problem := self._folder_problem():
            raise HistoryError(problem)
        try:
            with self._store.locked() as git:
                yield CommitWriter(self._store, git, self._state_paths, self._limits())
        except OSError as exc:
            raise HistoryError(f"cannot access the file history of {self._root}: {exc}") from exc

    def _folder_problem(self) -> str:
        root = self._root
        if not root.exists():
            return f"{root} does not exist; fix root, or create the folder"
        if not root.is_dir():
            return f"{root} is not a folder; fix root"
        if not os.access(root, os.R_OK | os.X_OK, effective_ids=True):
            return f"safetyd's user cannot read {root}"
        if moved := self._store.moved():
            return moved
        store, top = self._store.folder.resolve(), root.resolve()
        if store.is_relative_to(top) or top.is_relative_to(store):
            return f"{root} contains safetyd's own {store}, or is inside it; move one of them"
        return ""

    def _repository_problem(self) -> str:
        layout = self._store.layout()
        if any(is_repository(folder) for folder in (layout.root, *layout.root.parents)):
            return f"{self._root} is in a bare repository, which has no files; fix root"
        return ""

    def _write_problem(self) -> str:
        """Return why rollbacks cannot write to the folder and how to fix it, or an empty text."""
        root = self._root
        if os.access(root, os.W_OK | os.X_OK, effective_ids=True):
            return ""
        if os.statvfs(root).f_flag & os.ST_RDONLY:
            return (
                f"{root} is read-only for safetyd, so rollbacks are not possible. Under systemd, "
                f"run systemctl edit safetyd and add: [Service] ReadWritePaths={root}"
            )
        us, owner = user_name(os.geteuid()), user_name(root.stat().st_uid)
        rights = f"u:{us}:rwX,d:u:{us}:rwX,d:u:{owner}:rwX"
        return (
            f"{us} cannot write to {root}, so rollbacks are not possible. "
            f"Run: setfacl -R -m {rights} {shlex.quote(str(root))}"
        )


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
