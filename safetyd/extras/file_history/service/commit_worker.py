"""Makes commits that are due, one after the other, in the background."""

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple

import anyio
import anyio.abc
import msgspec
from msgspec.structs import replace

from safetyd.clock import after_changes_ns, file_time_ns
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.history_events import CommitDue, CommitFailed, Committed, RollbackOffered
from safetyd.core.file_commits import CommitFirst, commit_due
from safetyd.core.history_state import Change, FailedCommit
from safetyd.core.policy import Configured
from safetyd.extras.file_history.history_records import (
    MOST_NAMED,
    CommitMade,
    CommitOrder,
    CommitPart,
    HistoryError,
)
from safetyd.extras.file_history.project_history import ProjectHistory
from safetyd.extras.file_history.service.histories import Histories, in_thread
from safetyd.journal.mailbox import Mailbox

log = logging.getLogger("safetyd.file_history")

MAX_LOOKED: Final = 4096
RETRY_S: Final = 1.0  # after a failed commit; doubled each time
MAX_RETRY_S: Final = 60.0  # the longest delay

Act = Callable[[], None]


class KeptUntil(NamedTuple):
    """The last commit of a project, and the last event before it."""

    commit: str
    seq: int


class CommitWorker:
    """Makes commits. `due` are those that an earlier daemon did not make.

    `offered` handles repeated errors, and `flush` sends held replies.
    """

    def __init__(
        self,
        histories: Histories,
        mailbox: Mailbox,
        now: Callable[[], datetime],
        offered: Callable[[RollbackOffered], None],
        flush: Act,
        due: Iterable[CommitDue] = (),
    ) -> None:
        self._flush = flush
        self._histories = histories
        self._mailbox = mailbox
        self._now = now
        self._offered = offered
        self._queue = deque(due)
        self._before = {(one.agent, one.id): one for one in self._queue if one.why == "before"}
        self._arrived = anyio.Event()
        self._waiting: dict[tuple[str, str], list[Act]] = {}
        self._seen = 0  # the number of the last event
        self._kept: dict[str, KeptUntil] = {}  # last commits by project
        self._looked: dict[int, None] = {}  # decisions that were checked for changes, oldest first
        self._retried = set[int]()  # failed commits that were retried, until that is recorded
        self._retrying = set[str]()  # projects
        self._one_made = anyio.Event()  # replaced when a commit is finished
        self._tasks: anyio.abc.TaskGroup | None = None

    def observe(self, events: Sequence[Event]) -> None:
        """Handle durable events."""
        for event in events:
            self._seen = max(self._seen, event.seq)
            match event:
                case CommitDue():
                    self._queue.append(event)
                    self._arrived.set()
                    if event.why == "before":
                        self._before[event.agent, event.id] = event
                case Committed() | CommitFailed() if event.due:
                    self._over(event)
                    self._retried.discard(event.due)
                    if isinstance(event, CommitFailed):
                        self._retry_later(event.project)
                case RollbackOffered():
                    self._offered(event)
                case Configured():
                    self._histories.renew(event.policy.projects)

    def after(self, agent: str, id_: str, first: CommitFirst | None, act: Act) -> None:
        """Call `act` once the commit before an action is made, has failed, or takes too long.

        An irreversible action always waits for this commit. Before other actions, changes by a
        human are committed in parallel. An action on a file that changed since the last commit
        waits until the changed file is committed.
        """
        if self._tasks is None:
            act()
            return
        waiting = self._waiting.get((agent, id_))
        if waiting is not None:
            waiting.append(act)
            return
        if first is not None and first.due is not None:
            self._waiting[agent, id_] = waiting = [act]
            self._tasks.start_soon(self._wait, first.due, waiting)
            return
        change = None if first is None else self._first_look(first.change)
        if change is None or not change.paths:
            act()
        else:
            self._waiting[agent, id_] = [act]
        if first is None or change is None:
            return
        about = commit_due(Moment(self._now(), 0.0), agent, id_, change, "before")
        if not first.behind:
            self._tasks.start_soon(self._look, self._tasks, about, change.paths, file_time_ns())
        elif change.paths:
            self._tasks.start_soon(self._wait_behind, about, change.paths)

    def _first_look(self, change: Change | None) -> Change | None:
        """Return the change of an action, or None if that action was already checked."""
        if change is None or change.decision in self._looked:
            return None
        self._looked[change.decision] = None
        if len(self._looked) > MAX_LOOKED:
            del self._looked[next(iter(self._looked))]
        return change

    async def run(self) -> None:
        """Make commits forever."""
        async with anyio.create_task_group() as self._tasks:
            for project in {one.due.project for one in await self._failed()}:
                self._retry_later(project)
            while True:
                if not self._queue:
                    self._arrived = anyio.Event()
                    await self._arrived.wait()
                self._tasks.start_soon(self._make, self._queue.popleft())

    async def _make(self, due: CommitDue) -> None:
        """Make a commit after earlier ones of its project; other projects do not wait."""
        self._mailbox.record(await self._made(due))

    async def retry(self, project: str) -> None:
        """Retry the failed commits of a project, each with its own author.

        The caller holds the lock of the project. If one fails again, `HistoryError` says why.
        """
        for one in await self._to_retry(project):
            history = self._histories.find(project)
            part = _part_of(one.due, one.until_ns)
            made = await in_thread(partial(history.commit, order_of(one.due), part))
            self._retried.add(one.due.seq)
            self._mailbox.record(self._result(one.due, made))

    async def _to_retry(self, project: str) -> list[FailedCommit]:
        failed = [one for one in await self._failed() if one.due.project == project]
        return [one for one in failed if one.due.seq not in self._retried]

    async def _failed(self) -> tuple[FailedCommit, ...]:
        return await self._mailbox.ask(lambda state, _: state.records.file_commits.failed)

    async def _is_due(self, project: str) -> bool:
        known = lambda state, _: state.records.file_commits.is_due(project)  # noqa: E731
        return await self._mailbox.ask(known)

    def _retry_later(self, project: str) -> None:
        if self._tasks is not None and project not in self._retrying:
            self._retrying.add(project)
            self._tasks.start_soon(self._retry_until_made, project)

    async def _retry_until_made(self, project: str) -> None:
        delay_s = RETRY_S
        while project in self._histories.names and await self._to_retry(project):
            await anyio.sleep(delay_s)
            delay_s = min(2 * delay_s, MAX_RETRY_S)
            with contextlib.suppress(HistoryError):
                async with self._histories.lock(project):
                    await self.retry(project)
        self._retrying.discard(project)

    async def _look(
        self,
        tasks: anyio.abc.TaskGroup,
        about: CommitDue,
        paths: tuple[str, ...],
        allowed_ns: int,
    ) -> None:
        """Commit changes by a human. The action waits for this only if it names a changed file.

        If the action does not wait, changes since it was allowed may be its own and are skipped.
        """
        key, until_ns = (about.agent, about.id), allowed_ns if not paths else None
        try:
            history = self._histories.find(about.project)
            if paths and not await self._may_lose(history, paths, about.project):
                until_ns = file_time_ns()
                self._go_on(key)
            elif waiting := self._waiting.get(key):
                tasks.start_soon(self._wait, about, waiting)
            async with self._histories.lock(about.project):
                await self.retry(about.project)
                part = CommitPart(until_ns=until_ns)
                made = await in_thread(partial(history.commit, _found_before(about), part))
        except HistoryError as exc:
            log.warning("project %s was not committed before %s: %s", about.project, key[1], exc)
            if until_ns is None:
                self._mailbox.record(partial(_failed, about, str(exc), 0))
        else:
            if made is not None:
                self._mailbox.record(partial(_committed, about, made, ""))
        self._go_on(key)

    async def _wait_behind(self, about: CommitDue, paths: tuple[str, ...]) -> None:
        """Call `act` once pending commits contain the files that the action would overwrite."""
        deadline_s = self._histories.deadline_s(about.project)
        try:
            history = self._histories.find(about.project)
            if await self._may_lose(history, paths, about.project):
                with anyio.move_on_after(deadline_s) as patience:
                    made = self._one_made
                    while await self._is_due(about.project):
                        await made.wait()
                        made = self._one_made
                if patience.cancelled_caught:
                    self._too_late(about, deadline_s)
        except HistoryError as exc:
            log.warning(
                "project %s: %s starts without checking for changes: %s",
                about.project,
                about.id,
                exc,
            )
        self._go_on((about.agent, about.id))

    async def _may_lose(self, history: ProjectHistory, paths: tuple[str, ...], name: str) -> bool:
        """Return True if a file has uncommitted content; give up if the disk hangs."""
        with anyio.move_on_after(self._histories.deadline_s(name)):
            return await in_thread(partial(history.may_lose, paths), abandon=True)
        return False

    async def _made(self, due: CommitDue) -> Callable[[Moment], Event]:
        """Return the result of a commit."""
        try:
            history = self._histories.find(due.project)
        except HistoryError as exc:
            log.warning("project %s was not committed: %s", due.project, exc)
            return partial(_failed, due, str(exc), due.seq)
        async with self._histories.lock(due.project):
            with contextlib.suppress(HistoryError):
                await self.retry(due.project)
            try:
                made = await in_thread(partial(history.commit, order_of(due), _part_of(due)))
            except HistoryError as exc:
                log.warning("project %s was not committed: %s", due.project, exc)
                return partial(_failed, due, str(exc), due.seq, until_ns=after_changes_ns())
        return self._result(due, made)

    def _result(self, due: CommitDue, made: CommitMade | None) -> Callable[[Moment], Event]:
        if made is not None:
            for each in made.left_out[:MOST_NAMED]:
                log.warning("project %s: left out of %s: %s", due.project, made.commit[:12], each)
            self._kept[due.project] = KeptUntil(made.commit, self._seen)
            return partial(_committed, due, made, "")
        kept = self._kept.get(due.project)
        # An action that started before that commit is part of it, because nothing changed
        # afterwards.
        within = kept.commit if kept and due.why == "after" and due.decision <= kept.seq else ""
        return partial(_committed, due, None, within)

    def _over(self, event: Committed | CommitFailed) -> None:
        """Continue actions that waited for a finished or failed commit."""
        self._one_made.set()
        self._one_made = anyio.Event()
        key = (event.agent or "", event.id)
        due = self._before.get(key)
        if due is not None and due.seq == event.due:
            del self._before[key]
            self._go_on(key)

    async def _wait(self, due: CommitDue, waiting: list[Act]) -> None:
        key, deadline_s = (due.agent, due.id), self._histories.deadline_s(due.project)
        await anyio.sleep(deadline_s)
        if self._waiting.get(key) is waiting:
            self._too_late(due, deadline_s)
            self._go_on(key)

    def _too_late(self, due: CommitDue, deadline_s: float) -> None:
        error = f"it takes longer than {deadline_s:g} s, so the action starts without it"
        log.warning("project %s: the commit before %s: %s", due.project, due.id, error)
        # The commit itself continues: it is still due.
        self._mailbox.record(partial(_failed, due, error, 0))

    def _go_on(self, key: tuple[str, str]) -> None:
        for act in self._waiting.pop(key, ()):
            act()
        self._flush()


def _found_before(about: CommitDue) -> CommitOrder:
    """Return the order for changes by a human, found before an action."""
    words = f"changes found before {about.type} of {about.agent}"
    return CommitOrder(why="before", at=about.at, description=words)


def order_of(due: CommitDue) -> CommitOrder:
    """Return the order for a commit. If several agents may be the author, it names them."""
    if due.shared_with:
        agents = (due.agent, *due.shared_with)
        words = f"changes while {' and '.join(agents)} were working"
        return CommitOrder(why="unknown", at=due.at, description=words)
    return replace(msgspec.convert(due, CommitOrder, from_attributes=True), action=due.type)


def _part_of(due: CommitDue, until_ns: int | None = None) -> CommitPart:
    return CommitPart(due.paths, due.apart, until_ns)


def _committed(due: CommitDue, made: CommitMade | None, within: str, moment: Moment) -> Committed:
    found = made or CommitMade("", 0, 0, 0)
    return Committed(
        at=moment.at,
        t=moment.t,
        project=due.project,
        commit=found.commit,
        due=due.seq,
        why="unknown" if due.shared_with else due.why,
        agent=due.agent,
        session=due.session,
        id=due.id,
        decision=due.decision,
        files=found.files,
        added=found.added,
        removed=found.removed,
        left_out=tuple(map(str, found.left_out[:MOST_NAMED])),
        left_out_files=len(found.left_out),
        within=within,
    )


def _failed(
    due: CommitDue, error: str, number: int, moment: Moment, until_ns: int = 0
) -> CommitFailed:
    return CommitFailed(
        at=moment.at,
        t=moment.t,
        project=due.project,
        error=error,
        due=number,
        agent=due.agent,
        id=due.id,
        until_ns=until_ns,
    )
