"""The file histories of all projects, according to the policy."""

import logging
from collections.abc import Callable, Container, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from safetyd.core.guards.projects import COMMIT_DEADLINE_S, ProjectConfig
from safetyd.extras.file_history.folder_changes import CommitLimits
from safetyd.extras.file_history.history_records import CommitOrder, HistoryError
from safetyd.extras.file_history.project_history import Limits, ProjectHistory

DIRECTORY: Final = "history"  # in the data directory
FIRST: Final = "as it was before"

Result = TypeVar("Result")

log = logging.getLogger("safetyd.file_history")


class Histories:
    """The file histories by project. `directory` contains their repositories.

    Only one operation per project runs at a time: take its `lock`.
    """

    def __init__(
        self,
        directory: Path,
        projects: Mapping[str, ProjectConfig],
        limits: Limits = CommitLimits,
    ) -> None:
        self._directory = directory
        self._limits = limits
        self._locks: dict[str, anyio.Lock] = {}
        self.renew(projects)

    def renew(self, projects: Mapping[str, ProjectConfig]) -> None:
        """Apply a new policy."""
        self._projects = {name: one for name, one in projects.items() if one.committed}
        self._known = {
            name: history_of(name, one, self._directory, self._limits)
            for name, one in self._projects.items()
        }

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._known)

    def find(self, project: str) -> ProjectHistory:
        """Return the file history of a project; `HistoryError` if it has none."""
        if project not in self._known:
            raise HistoryError(
                f"project {project!r} has no file history; set history under [projects.{project}]"
            )
        return self._known[project]

    def rolls_back(self, project: str) -> bool:
        """Return True if repeated errors cause a rollback instead of only an offer to roll back."""
        known = self._projects.get(project)
        return known is not None and known.on_error == "rollback"

    def deadline_s(self, project: str) -> float:
        """Return how long an action waits for the commit before it, in seconds."""
        known = self._projects.get(project)
        return COMMIT_DEADLINE_S if known is None else known.commit_deadline_s

    def lock(self, project: str) -> anyio.Lock:
        return self._locks.setdefault(project, anyio.Lock())

    async def commit_first(self, at: datetime, changed: Container[str] = ()) -> None:
        """Commit projects that have no commit yet, so that no action gets their earlier changes.

        Projects in `changed` are skipped: their changes are committed with agents as authors.
        """
        for name, history in self._known.items():
            if name in changed:
                continue
            try:
                async with self.lock(name):
                    await in_thread(partial(_begin, history, at), abandon=True)
            except HistoryError as exc:
                log.warning("project %s was not committed: %s", name, exc)


def _begin(history: ProjectHistory, at: datetime) -> None:
    if not history.rows(1):
        history.commit(CommitOrder(why="before", at=at, description=FIRST))


async def in_thread(work: Callable[[], Result], *, abandon: bool = False) -> Result:
    """Work with a project's files in another thread.

    The files belong to agents, so every failure becomes a `HistoryError`.
    """
    try:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=abandon)
    except HistoryError:
        raise
    except Exception as exc:
        log.exception("an operation on a project's folder failed")
        raise HistoryError(f"an operation on its files failed: {exc!r}") from exc


def history_of(
    name: str, project: ProjectConfig, directory: Path, limits: Limits = CommitLimits
) -> ProjectHistory:
    state_paths = project.state_paths or ()
    return ProjectHistory(name, Path(project.root), state_paths, directory / name, limits)


def history_problems(projects: Mapping[str, ProjectConfig], directory: Path) -> Iterator[str]:
    """Yield problems that prevent file histories from working, each with a fix. It blocks."""
    for name, project in projects.items():
        if not project.committed:
            continue
        try:
            problems = history_of(name, project, directory).problems()
        except Exception as exc:  # noqa: BLE001 - the folder is an agent's
            problems = [str(HistoryError(str(exc)))]
        yield from (f"projects.{name}.history: {problem}" for problem in problems)
