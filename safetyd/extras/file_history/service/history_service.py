"""File history for operators: commits, diffs, and rollbacks.

A rollback pauses the agents of the project. If the daemon dies during the rollback, or only some
files could be restored, the agents stay paused until an operator has checked the files.
"""

import contextlib
import heapq
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

import anyio
import anyio.from_thread
from msgspec.structs import replace

from safetyd.clock import Clock
from safetyd.core.events.history_events import RollbackOffered
from safetyd.core.history_state import UnfinishedRollback
from safetyd.core.messages.rollback import current_kind
from safetyd.extras.file_history.history_records import (
    CommitOrder,
    HistoryError,
    PathElsewhere,
    StoppedHalfway,
)
from safetyd.extras.file_history.project_history import ProjectHistory
from safetyd.extras.file_history.service.histories import Histories, in_thread
from safetyd.extras.file_history.service.rollback_events import (
    BY,
    RollbackPlans,
    interrupted,
    not_rolled_back,
)
from safetyd.journal.mailbox import Mailbox, Plan, Unanswered
from safetyd.operators.commands import INTERNAL_ERROR
from safetyd.operators.contract.history_contract import (
    CommitAnswer,
    CommitQuestion,
    CommitRow,
    CommitsAnswer,
    CommitsQuestion,
    RollbackCommand,
    RollbackDone,
)
from safetyd.operators.handlers import Handlers, work
from safetyd.operators.replies import CommandRefused

MAX_REMEMBERED: Final = 16  # commits whose answers are cached for open pages

Told = TypeVar("Told")

log = logging.getLogger("safetyd.file_history")


async def nothing_failed(_project: str) -> None:
    """Do nothing: there are no failed commits to retry."""


class HalfRolledBack(CommandRefused):
    """A rollback stopped halfway. Agents stay paused until an operator has checked the files."""

    def __init__(self, why: StoppedHalfway) -> None:
        paused = "Agents that work there stay paused; see `safetyd status` for how to continue"
        super().__init__("half_rolled_back", f"{why}. {paused}")


class HistoryService:
    """`retry` repeats failed commits of a project; the caller holds its lock."""

    def __init__(
        self,
        histories: Histories,
        mailbox: Mailbox,
        clock: Clock,
        retry: Callable[[str], Awaitable[None]] = nothing_failed,
    ) -> None:
        self._retry = retry
        self._histories = histories
        self._mailbox = mailbox
        self._clock = clock
        self._offers: list[RollbackOffered] = []
        self._known: dict[tuple[ProjectHistory, str, str], CommitAnswer] = {}
        self._arrived = anyio.Event()

    @property
    def handlers(self) -> Handlers:
        """Return the handlers of commands and queries."""
        return dict(
            (
                work(RollbackCommand, self.roll_back),
                work(CommitsQuestion, lambda _by, question: self.commits(question)),
                work(CommitQuestion, lambda _by, question: self.commit(question)),
            )
        )

    async def commits(self, question: CommitsQuestion) -> CommitsAnswer:
        """Return the newest commits of one project or all."""
        names = (question.project,) if question.project else self._histories.names
        start = await self._start(question)
        rows: list[list[CommitRow]] = []
        problems: list[str] = []
        for name in names:
            asked = start.asked(name, names)
            try:
                found, wrong = await in_thread(
                    partial(_read_rows, self._find(name), question, asked)
                )
            except HistoryError as exc:
                found, wrong = [], [str(exc)]
            rows.append(found)
            problems += [f"{name}: {problem}" for problem in wrong]
        merged = heapq.merge(*rows, key=lambda row: row.at, reverse=True)
        return CommitsAnswer(
            ok=True,
            commits=tuple(islice(merged, question.limit)),
            projects=self._histories.names,
            problems=tuple(problems),
        )

    async def commit(self, question: CommitQuestion) -> CommitAnswer:
        """Return a commit and its diff, or the diff to another."""
        if question.project:
            key = (self._find(question.project), question.commit, question.other)
            if key in self._known:
                return self._known[key]
        history = await self._holding(question.project, question.commit)
        try:
            commit = await in_thread(partial(history.find, question.commit))
            other = await in_thread(partial(history.find, question.other)) if question.other else ""
            message = await in_thread(partial(history.show, commit))
            diff = await in_thread(partial(history.diff, commit, other))
        except HistoryError as exc:
            raise CommandRefused("not_found", str(exc)) from None
        about = {"project": history.project, "commit": commit}
        answer = CommitAnswer(ok=True, message=message, diff=diff, **about)
        self._known[history, commit, other] = answer  # a full name always means the same commit
        if len(self._known) > MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        return answer

    async def roll_back(
        self, by: str, command: RollbackCommand, *, automatic: bool = False
    ) -> RollbackDone:
        """Restore files while the agents are paused."""
        history = await self._holding(command.project, command.commit)
        begin = RollbackPlans(history.project, by, command).begin
        plans, stopped = await self._carry_out(begin)
        first = _first_kept(stopped, command)
        order = CommitOrder(
            why="automatic_rollback" if automatic else "rollback",
            at=self._clock.now().at,
            approver=by,
            description=command.reason,
        )

        def changing(kept: str) -> None:
            anyio.from_thread.run(self._carry_out, plans.change(first or kept))

        try:
            async with self._histories.lock(history.project):
                commit = await in_thread(partial(history.find, command.commit))
                plans = plans._replace(command=replace(command, commit=commit))
                await self._commit_earlier(history, stopped)
                asked = (command.kind, commit, command.paths)
                done = await in_thread(partial(history.roll_back, *asked, order, changing))
        except StoppedHalfway as exc:
            await self._carry_out(plans.stop(str(exc), first or exc.kept))
            raise HalfRolledBack(exc) from None
        except HistoryError as exc:
            await self._carry_out(plans.cancel(str(exc)))
            raise CommandRefused("not_rolled_back", str(exc)) from None
        done = replace(done, agents=plans.agents)
        if first:
            # If nothing changed now, the stopped rollback had already restored everything.
            done = replace(done, kept=first, made=done.made or done.kept)
        changed = done.made or done.files
        ended = plans.finish(done) if changed else plans.cancel("nothing differed")
        await self._carry_out(ended)
        return done

    def offered(self, event: RollbackOffered) -> None:
        """Handle repeated errors; roll back automatically if the project is configured so."""
        if self._histories.rolls_back(event.project):
            self._offers.append(event)
            self._arrived.set()

    async def run(self) -> None:
        """Roll back automatically, forever."""
        for stopped in await self._carry_out(interrupted):
            with contextlib.suppress(HistoryError):
                history = self._histories.find(stopped.project)
                async with self._histories.lock(stopped.project):
                    await self._commit_stopped(history, stopped)
        while True:
            if not self._offers:
                self._arrived = anyio.Event()
                await self._arrived.wait()
            event = self._offers.pop(0)
            reason = f"agent {event.agent} had {event.errors} errors in a row"
            command = RollbackCommand(
                commit=event.commit, kind="soft", reason=reason, project=event.project
            )
            try:
                await self.roll_back(BY, command, automatic=True)
            except HalfRolledBack:
                continue  # already recorded
            except CommandRefused as exc:
                await self._carry_out(not_rolled_back(event, str(exc)))

    async def _commit_earlier(
        self, history: ProjectHistory, stopped: UnfinishedRollback | None
    ) -> None:
        """Commit changes by agents or a stopped rollback, so that no human appears as author."""
        with contextlib.suppress(HistoryError):
            await self._retry(history.project)
        if stopped is not None:
            await self._commit_stopped(history, stopped)

    async def _commit_stopped(self, history: ProjectHistory, stopped: UnfinishedRollback) -> None:
        """Commit the files that an unfinished rollback restored."""
        if not stopped.kept:
            return  # it changed nothing
        order = CommitOrder(
            why="automatic_rollback" if stopped.by == BY else "rollback",
            at=self._clock.now().at,
            approver=stopped.by,
            description=f"as the unfinished rollback to {stopped.commit[:12]} left it",
        )
        try:
            asked = (stopped.kind, stopped.commit, stopped.paths)
            await in_thread(partial(history.commit_stopped, *asked, order))
        except HistoryError as exc:
            log.warning("project %s: %s", stopped.project, exc)

    async def _start(self, question: CommitsQuestion) -> "_Start":
        """Return where a list starts: after a commit, or at the newest one."""
        if not question.before:
            return _Start()
        history = await self._holding(question.project, question.before)
        try:
            at = await in_thread(partial(history.committed_at, question.before))
        except HistoryError as exc:
            raise CommandRefused("not_found", str(exc)) from None
        return _Start(history.project, question.before, at)

    def _find(self, project: str) -> ProjectHistory:
        try:
            return self._histories.find(project)
        except HistoryError as exc:
            raise CommandRefused("not_found", str(exc)) from None

    async def _holding(self, project: str, commit: str) -> ProjectHistory:
        """Return the history of a project, or the only history that has a commit."""
        if project:
            return self._find(project)
        found: list[ProjectHistory] = []
        for history in map(self._find, self._histories.names):
            with contextlib.suppress(HistoryError):
                await in_thread(partial(history.find, commit))
                found.append(history)
        if len(found) == 1:
            return found[0]
        why = f"no project has a commit {commit}"
        if found:
            names = ", ".join(history.project for history in found)
            why = f"several projects have a commit {commit}; choose one"
            why = f"{why} with --project: {names}"
        raise CommandRefused("not_found", why)

    async def _carry_out(self, plan: Plan[Told]) -> Told:
        """Return the answer to a command once its effects are durable."""
        try:
            return await self._mailbox.carry_out(plan)
        except Unanswered:
            raise CommandRefused(INTERNAL_ERROR.code, INTERNAL_ERROR.error) from None


class _Start(NamedTuple):
    """The commit after which a list of commits of several projects continues."""

    project: str = ""
    commit: str = ""
    at: datetime | None = None

    def asked(self, project: str, names: Sequence[str]) -> dict[str, Any]:
        """Return the filter for a project; commits of the same second are sorted by project."""
        if project == self.project:
            return {"before": self.commit}
        if self.at is None:
            return {}
        listed_before = names.index(project) < names.index(self.project)
        return {"until": self.at - timedelta(seconds=listed_before)}


def _first_kept(stopped: UnfinishedRollback | None, command: RollbackCommand) -> str:
    """Return the commit made before the first attempt of the same rollback, if there was one."""
    if stopped is None or current_kind(stopped.kind) != command.kind:
        return ""
    one, other = sorted((stopped.commit, command.commit), key=len)
    return stopped.kept if other.startswith(one) else ""


def _read_rows(
    history: ProjectHistory, question: CommitsQuestion, start: dict[str, Any]
) -> tuple[list[CommitRow], list[str]]:
    """Return commits, and problems of the file history."""
    try:
        problems = history.problems()
        rows = history.rows(
            question.limit,
            agent=question.agent,
            session=question.session,
            path=question.path,
            since=question.since,
            **start,
        )
    except PathElsewhere as exc:
        return [], [str(exc)] if question.project else []
    except HistoryError as exc:
        return [], [str(exc)]
    return rows, problems
