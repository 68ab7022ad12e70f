"""File history of projects: commits of changes by agents, and rollbacks."""

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Final

import anyio
import anyio.to_thread

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.core.file_commits import FileCommits
from safetyd.core.reporting.records import Records
from safetyd.daemon.disk_space import spare
from safetyd.daemon.extra import Extra, ExtraHost
from safetyd.extras.file_history.folder_changes import CommitLimits
from safetyd.extras.file_history.git_process import version_problem
from safetyd.extras.file_history.service.commit_worker import CommitWorker
from safetyd.extras.file_history.service.histories import DIRECTORY, Histories, history_problems
from safetyd.extras.file_history.service.history_service import HistoryService
from safetyd.operators.contract.status_contract import UnavailableExtra
from safetyd.operators.handlers import Handlers

FIRST_S: Final = 10.0  # shorter than the timeout of a reload

log = logging.getLogger("safetyd.file_history")


class FileHistory(Extra):
    """Commits changes by agents, and rolls them back."""

    commits: CommitWorker

    def __init__(self, host: ExtraHost, records: Records) -> None:
        of, known = host.of, records.file_commits
        self._changed: set[str] | None = _changed(known)  # at the start
        self._mailbox = of.mailbox
        self._directory = of.data_dir / DIRECTORY
        self._clock = of.clock
        self._settings = of.settings
        self._histories = histories = Histories(
            self._directory, of.settings.policy.projects, self._limits
        )
        self._service = HistoryService(
            histories,
            of.mailbox,
            of.clock,
            lambda project: self.commits.retry(project),  # noqa: PLW0108 - made later
        )
        self.commits = CommitWorker(
            histories,
            of.mailbox,
            self._now,
            self._service.offered,
            host.flush,
            known.due,
        )

    @property
    def handlers(self) -> Handlers:
        return self._service.handlers

    def observe(self, events: Sequence[Event]) -> None:
        self.commits.observe(events)

    async def prepare(self) -> None:
        """Commit the current state of each project before the new rules apply.

        This returns after at most ten seconds. Large folders are then committed in the background.
        """
        self._histories.renew(self._settings.policy.projects)
        with anyio.move_on_after(FIRST_S):
            changed, self._changed = self._changed, None
            if changed is None:
                changed = await self._mailbox.ask(_changed_now)
            await self._histories.commit_first(self._now(), changed)

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.commits.run)
            tasks.start_soon(self._service.run)
            tasks.start_soon(anyio.to_thread.run_sync, self._say_problems)

    def unavailable(self) -> Iterator[UnavailableExtra]:
        if self._histories.names and (problem := version_problem()):
            why, _, fix = problem.partition("; ")
            yield UnavailableExtra(name="file history", why=why, fix=fix)

    def _limits(self) -> CommitLimits:
        config = self._settings.config
        return CommitLimits(
            config.history.max_file_bytes,
            config.history.max_commit_bytes,
            partial(spare, config.disk),
        )

    def _now(self) -> datetime:
        return self._clock.now().at

    def _say_problems(self) -> None:
        """Log the projects that cannot be committed, before the first commit is due."""
        for problem in history_problems(self._settings.policy.projects, self._directory):
            log.warning("%s", problem)


def _changed(known: FileCommits) -> set[str]:
    """Return projects with uncommitted changes by agents."""
    return {due.project for due in (*known.due, *(one.due for one in known.failed))}


def _changed_now(state: EngineState, _moment: Moment) -> set[str]:
    return _changed(state.records.file_commits)


EXTRA = FileHistory
