"""The version history of a project's folder: commits, what they changed, and the way back.

Everything blocks: call it in a worker thread. What goes wrong is a `HistoryError`.
"""

import contextlib
import os
import pwd
import re
import shlex
import stat
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from safetyd.clock import file_time_ns
from safetyd.core.messages.rollback import RollbackKind
from safetyd.history import commit_reading, rollback_plan
from safetyd.history.commit_writing import CommitLimits, Limits, StatePaths
from safetyd.history.file_restore import FileRestore, may_write, stored
from safetyd.history.git_process import version_problem
from safetyd.history.history_records import (
    Change,
    CommitMade,
    CommitOrder,
    FileEffect,
    HistoryError,
    HistoryRow,
    LeftAlone,
    PathElsewhere,
    RollbackMade,
    StoppedHalfway,
    named,
    shown,
)
from safetyd.history.repository_layout import is_bare
from safetyd.history.shadow_commits import ShadowCommits, ShadowWork

__all__ = [
    "CommitMade",
    "CommitOrder",
    "HistoryError",
    "HistoryRow",
    "PathElsewhere",
    "ProjectHistory",
    "RollbackMade",
    "StoppedHalfway",
]

BEFORE: Final = "before a rollback"  # what was there, also if nothing was rolled back then
MOST_NAMED: Final = 20  # files of a rollback
NOT_WRITTEN: Final = "has a name that safetyd does not write"
_GOOD: Final = commit_reading.Wanted({"why": "after"}, [])
_COMMIT: Final = re.compile(r"[0-9a-f]{4,64}")


class ProjectHistory:
    """What is kept of a project, and where: `store` is a folder beside safetyd's data."""

    def __init__(
        self,
        project: str,
        root: Path,
        state_paths: tuple[str, ...],
        store: Path,
        limits: Limits = CommitLimits,
    ) -> None:
        self._root = root
        self._seen_ns = 0  # what was changed before that moment is in a commit
        self._kept = ShadowCommits(project, root, StatePaths(state_paths), store, limits)

    def problems(self) -> list[str]:
        """Say what keeps the history from working, each with what to do about it."""
        found = [version_problem(), self._folder_problem()]
        if not any(found):
            found = [self._repository_problem(), self._write_problem()]
        return list(filter(None, found))

    def commit(self, order: CommitOrder, until_ns: int | None = None) -> CommitMade | None:
        """Keep the folder as it is; None if nothing changed since the last commit.

        With `until_ns`, take only what was last changed before that moment of the file clock.
        """
        begun_ns = file_time_ns()
        with self._working() as work:
            select = None if until_ns is None else work.indexed.unchanged_since(until_ns)
            made = work.commit(order, select)
        self._seen_ns = begun_ns if until_ns is None else min(begun_ns, until_ns)
        return made

    def may_lose(self, paths: Sequence[str]) -> bool:
        """Return whether one of the paths may hold what no commit has: it changed since the last.

        A folder may always. Without any commit there is nothing to compare with.
        """
        seen_ns = self._seen_ns or _changed_ns(self._kept.folder / "index")
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
    ) -> list[HistoryRow]:
        """Return the newest commits: of an agent or session, of a file or folder, of a time.

        With `before`, only what was committed before that commit.
        """
        layout = self._kept.layout()
        paths = rollback_plan.below_root(layout.root, layout.within, (path,)) if path else []
        end = self._found(before) if before else ""
        note = {"agent": agent, "session": session}
        found = self._matching(limit, commit_reading.Wanted(note, paths, since, until, end))
        return commit_reading.rows(self._kept.reading(), found) if found else []

    def committed_at(self, commit: str) -> datetime | None:
        """Return when a commit was made; None if it is none of this history."""
        try:
            name = self._found(commit)
        except HistoryError:
            return None
        return next(commit_reading.read_commits(self._kept.reading(), [name])).at

    def show(self, commit: str) -> str:
        """Return a commit's message and which files it changed."""
        return commit_reading.shown_commit(self._kept.reading(), self._found(commit))

    def diff(self, commit: str, other: str = "") -> str:
        """Return what a commit changed, or what leads from it to another; it says if it is cut."""
        ends = self._found(commit), self._found(other) if other else ""
        return commit_reading.shown_diff(self._kept.reading(), *ends)

    def last_good(self) -> str:
        """Return the newest commit after an action that succeeded, or nothing."""
        return next((found.commit for found in self._matching(1, _GOOD)), "")

    def commit_stopped(
        self, kind: RollbackKind, commit: str, paths: tuple[str, ...], order: CommitOrder
    ) -> None:
        """Commit the files that a rollback put back before it stopped halfway, and no others."""
        target = self._found(commit)
        with self._working() as work:
            ends, layout = (work.newest(), target), work.layout
            narrowed = rollback_plan.below_root(layout.root, layout.within, paths)
            changes = rollback_plan.planned(work.git, layout, kind, ends, narrowed)
            FileRestore(work.layout.top).remove_leftovers(changes)
            back = {change.path: change.new for change in changes}
            work.commit(replace(order, target=target), back.__contains__, back)

    def roll_back(
        self,
        kind: RollbackKind,
        commit: str,
        paths: tuple[str, ...],
        order: CommitOrder,
        begin: Callable[[str], None] = lambda _kept: None,
    ) -> RollbackMade:
        """Bring files back, after what is there now has been committed; then commit the rollback.

        Refuse, and change nothing, if something would be lost. `begin` is called before the first
        file changes, with the commit of the folder as it is then.
        """
        if paths and kind != "soft":
            raise HistoryError(f"{kind} is for whole commits; leave the paths out, or use soft")
        target = self._found(commit)
        with self._working() as work:
            within = work.layout.within
            narrowed = rollback_plan.below_root(work.layout.root, within, paths)
            kept = work.keep(_found_before(order))
            restore = FileRestore(work.layout.top)
            left_out = {each.path: each.why for each in work.indexed.left_out}
            plan = rollback_plan.planned(work.git, work.layout, kind, (kept, target), narrowed)
            # No commit has these as they are.
            planned = [change for change in plan if change.path not in left_out]
            changes = [change for change in planned if may_write(change.path)]
            skipped = [change.path for change in planned if not may_write(change.path)]
            made: CommitMade | None = None
            if changes:
                self._check(work, restore, changes, left_out)
                words = f"{kind} {'of' if kind == 'revert' else 'to'} {target[:12]}"
                about = replace(order, target=target, description=f"{words}: {order.description}")
                begin(kept)
                made = _applied(work, (kept, changes), restore, about)
            below = os.fsencode(within) + b"/" if within else b""
            gone = () if kind == "revert" else rollback_plan.deleted_by(work.git, target, narrowed)
            skips = {**dict.fromkeys(skipped, NOT_WRITTEN), **left_out}
            others = ((path, why) for path, why in work.indexed.left_alone() if path not in skips)
            left = [*commit_reading.lacking(work.git, target), *skips.items(), *others]
            effects = Counter(change.effect for change in changes)
            return RollbackMade(
                target=target,
                kept=kept,
                made=made.commit if made else "",
                files=len(changes),
                effects=tuple(
                    FileEffect(shown(one.path.removeprefix(below)), one.effect)
                    for one in changes[:MOST_NAMED]
                ),
                counts=tuple(sorted(effects.items())),
                still_deleted=sum(path.startswith(below) for path in gone),
                left=tuple(
                    LeftAlone(shown(path.removeprefix(below)), why)
                    for path, why in left[:MOST_NAMED]
                ),
                left_count=len(left),
            )

    def finish(self) -> None:
        """Wait for what goes on after a commit: objects are packed beside the work."""
        self._kept.finish()

    def _check(
        self,
        work: ShadowWork,
        restore: FileRestore,
        changes: list[Change],
        left_out: Container[bytes],
    ) -> None:
        restore.check(changes)
        since = work.indexed.changes(lambda path: path not in left_out)
        if since:
            raise HistoryError(
                f"nothing was changed: {named([*since.present, *since.gone])} changed meanwhile; "
                "pause whoever works there and try again"
            )

    @contextlib.contextmanager
    def _working(self) -> Iterator[ShadowWork]:
        if problem := self._folder_problem():
            raise HistoryError(problem)
        try:
            with self._kept.working() as work:
                yield work
        except OSError as exc:
            raise HistoryError(f"the history of {self._root} cannot be kept: {exc}") from exc

    def _matching(
        self, limit: int, wanted: commit_reading.Wanted
    ) -> list[commit_reading.ReadCommit]:
        pages = self._kept.commits()
        names = next(pages, [])
        if not names:
            return []

        def all_pages() -> Iterator[list[str]]:
            yield names
            yield from pages

        return commit_reading.matching(self._kept.reading(), all_pages(), limit, wanted)

    def _found(self, commit: str) -> str:
        found = self._kept.find(commit) if _COMMIT.fullmatch(commit) else ""
        if not found:
            raise HistoryError(
                f"{commit!r} is no commit of this history; `safetyd history` lists them"
            )
        return found

    def _folder_problem(self) -> str:
        root = self._root
        if not root.exists():
            return f"{root} does not exist; correct root, or make the folder"
        if not root.is_dir():
            return f"{root} is no folder; correct root"
        if not os.access(root, os.R_OK | os.X_OK, effective_ids=True):
            return f"{root} cannot be read by safetyd's user"
        if moved := self._kept.moved():
            return moved
        store, top = self._kept.folder.resolve(), root.resolve()
        if store.is_relative_to(top) or top.is_relative_to(store):
            return f"{root} and safetyd's own {store} lie in one another; keep them apart"
        return ""

    def _repository_problem(self) -> str:
        layout = self._kept.layout()
        if any(is_bare(folder) for folder in (layout.root, *layout.root.parents)):
            return f"{self._root} is in a bare repository, which has no files; correct root"
        return ""

    def _write_problem(self) -> str:
        """Return why no rollback can write to the folder, and what to type, or nothing."""
        root = self._root
        if os.access(root, os.W_OK | os.X_OK, effective_ids=True):
            return ""
        if os.statvfs(root).f_flag & os.ST_RDONLY:
            return (
                f"{root} is read-only for safetyd, so nothing can be rolled back. Under systemd, "
                f"run systemctl edit safetyd and add: [Service] ReadWritePaths={root}"
            )
        us, owner = _user_name(os.geteuid()), _user_name(root.stat().st_uid)
        rights = f"u:{us}:rwX,d:u:{us}:rwX,d:u:{owner}:rwX"
        return (
            f"{root} cannot be written by {us}, so nothing can be rolled back. "
            f"Run: setfacl -R -m {rights} {shlex.quote(str(root))}"
        )


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _found_before(order: CommitOrder) -> CommitOrder:
    """Return what the commit of what was there is about; a rollback is not the author of that."""
    return CommitOrder(why="before", at=order.at, description=f"{BEFORE}: {order.description}")


def _applied(
    work: ShadowWork,
    plan: tuple[str, list[Change]],
    restore: FileRestore,
    order: CommitOrder,
) -> CommitMade | None:
    """Put files back and commit that, and nothing else: `plan` is what is kept and the changes."""
    kept, changes = plan
    ours = frozenset(change.path for change in changes)
    with stored(work.git) as fill:
        try:
            restore.apply(changes, fill)
            return work.commit(order, ours.__contains__)
        except (OSError, HistoryError) as exc:
            # Nobody else shall seem to have changed what is put back already.
            with contextlib.suppress(OSError, HistoryError):
                half = replace(order, description=f"half of {order.description}")
                work.commit(half, ours.__contains__)
            done = f"{restore.done} of {len(changes)} files are put back"
            words = f"stopped halfway: {exc}; {done}, and what was there is kept as {kept[:12]}"
            raise StoppedHalfway(words, kept, order.target) from exc


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
