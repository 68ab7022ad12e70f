"""The version history for people: what was committed, what it changed, and going back.

A rollback pauses who works in the project until it is over. If the daemon dies meanwhile, or only
some files could be put back, they stay paused, for a person should look first.
"""

import heapq
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

import anyio
import msgspec

from safetyd.clock import Clock
from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.guard_events import Paused, Unpaused
from safetyd.core.events.history_events import RollbackFailed, RollbackOffered, RolledBack
from safetyd.history.project_history import (
    CommitOrder,
    HistoryError,
    HistoryRow,
    PathElsewhere,
    ProjectHistory,
    RollbackMade,
    StoppedHalfway,
)
from safetyd.history.service.histories import Histories, beside
from safetyd.journal.mailbox import Carried, CommandEnvelope, Mailbox, Plan
from safetyd.operators.command_runner import Aside
from safetyd.operators.commands import CommandRefused
from safetyd.operators.history_access import (
    CommitAnswer,
    CommitQuestion,
    CommitRow,
    CommitsAnswer,
    CommitsQuestion,
    RollbackCommand,
    RollbackDone,
)
from safetyd.operators.replies import INTERNAL_ERROR

SOURCE: Final = "rollback"  # of the pauses
BY: Final = "safetyd"
MAX_REMEMBERED: Final = 16  # commits whose answers are known: open pages ask again and again
WHOLE: Final = (40, 64)  # letters of a hash, which names one commit for ever

Told = TypeVar("Told")

_read = msgspec.convert


class HalfRolledBack(CommandRefused):
    """Whoever works there stays paused, for a person should look first."""

    def __init__(self, why: StoppedHalfway, agents: tuple[str, ...]) -> None:
        super().__init__("half_rolled_back", f"{why}. Whoever works there stays paused")
        self.agents = agents


class HistoryService:
    def __init__(self, histories: Histories, mailbox: Mailbox, clock: Clock) -> None:
        self._histories = histories
        self._mailbox = mailbox
        self._clock = clock
        self._offers: list[RollbackOffered] = []
        self._known: dict[tuple[ProjectHistory, str, str], CommitAnswer] = {}
        self._arrived = anyio.Event()

    @property
    def aside(self) -> Aside:
        """Return what people reach over the bus and the web."""
        return Aside(
            {
                "rollback": lambda by, given: partial(
                    self.roll_back, by, _read(given, RollbackCommand)
                )
            },
            {
                "commits": lambda _by, given: partial(self.commits, _read(given, CommitsQuestion)),
                "commit": lambda _by, given: partial(self.commit, _read(given, CommitQuestion)),
            },
        )

    async def commits(self, question: CommitsQuestion) -> CommitsAnswer:
        """Return the newest commits, of one project or of all."""
        names = (question.project,) if question.project else self._histories.names
        start = await self._start(question)
        rows: list[list[CommitRow]] = []
        problems: list[str] = []
        for name in names:
            asked = start.asked(name, names)
            try:
                found, wrong = await beside(partial(_read_rows, self._find(name), question, asked))
            except HistoryError as exc:
                found, wrong = [], [str(exc)]
            rows.append([_row(name, row) for row in found])
            problems += [f"{name}: {problem}" for problem in wrong]
        merged = heapq.merge(*rows, key=lambda row: row.at, reverse=True)
        return CommitsAnswer(
            ok=True,
            commits=tuple(islice(merged, question.limit)),
            projects=self._histories.names,
            problems=tuple(problems),
        )

    async def commit(self, question: CommitQuestion) -> CommitAnswer:
        """Return a commit and what it changed, or what leads from it to another."""
        project, history = await self._holding(question.project, question.commit)
        key = (history, question.commit, question.other)
        if key in self._known:
            return self._known[key]
        try:
            message = await beside(partial(history.show, question.commit))
            diff = await beside(partial(history.diff, question.commit, question.other))
        except HistoryError as exc:
            raise CommandRefused("not_found", str(exc)) from None
        answer = CommitAnswer(
            ok=True,
            project=project,
            commit=question.commit,
            message=message,
            diff=diff,
            branch=self._histories.on_branch(project),
        )
        if len(question.commit) in WHOLE and len(question.other) in (0, *WHOLE):
            self._known[key] = answer
            if len(self._known) > MAX_REMEMBERED:
                del self._known[next(iter(self._known))]
        return answer

    async def roll_back(self, by: str, command: RollbackCommand) -> RollbackDone:
        """Bring files back while nobody works there."""
        project, history = await self._holding(command.project, command.commit)
        agents = await self._carry_out(_pausing(project, by, command.reason))
        order = CommitOrder(
            why="rollback", at=self._clock.now().at, approver=by, description=command.reason
        )
        go_back = partial(history.roll_back, command.kind, command.commit, command.paths, order)
        try:
            async with self._histories.lock(project):
                made = await beside(go_back)
        except StoppedHalfway as exc:
            raise HalfRolledBack(exc, agents) from None
        except HistoryError as exc:
            await self._carry_out(_going_on(agents, by, "nothing was rolled back"))
            raise CommandRefused("not_rolled_back", str(exc)) from None
        await self._carry_out(_rolled_back(project, by, command, made, agents))
        return RollbackDone(
            ok=True,
            project=project,
            kept=made.kept,
            made=made.made,
            files=made.files,
            agents=agents,
            paths=made.paths,
            still_deleted=made.still_deleted,
        )

    def offered(self, event: RollbackOffered) -> None:
        """Hear of errors in a row; where the project wants it, go back by ourselves."""
        if self._histories.rolls_back(event.project):
            self._offers.append(event)
            self._arrived.set()

    async def run(self) -> None:
        """Go back for ever where errors in a row ask for it."""
        while True:
            if not self._offers:
                self._arrived = anyio.Event()
                await self._arrived.wait()
            event = self._offers.pop(0)
            reason = f"{event.errors} errors in a row of {event.agent}"
            command = RollbackCommand(
                commit=event.commit, kind="soft", reason=reason, project=event.project
            )
            try:
                await self.roll_back(BY, command)
            except CommandRefused as exc:
                await self._carry_out(_not_rolled_back(event, exc))

    async def _start(self, question: CommitsQuestion) -> "_Start":
        """Return where a list goes on: after a commit, or at the newest."""
        if not question.before:
            return _Start()
        project, history = await self._holding(question.project, question.before)
        try:
            at = await beside(partial(history.committed_at, question.before))
        except HistoryError as exc:
            raise CommandRefused("not_found", str(exc)) from None
        return _Start(project, question.before, at)

    def _find(self, project: str) -> ProjectHistory:
        try:
            return self._histories.find(project)
        except HistoryError as exc:
            raise CommandRefused("not_found", str(exc)) from None

    async def _holding(self, project: str, commit: str) -> tuple[str, ProjectHistory]:
        """Return the project that has a commit; one need not be named if only one has it."""
        if project:
            return project, self._find(project)
        found: list[tuple[str, ProjectHistory]] = []
        for name in self._histories.names:
            history = self._find(name)
            try:
                await beside(partial(history.show, commit))
            except HistoryError:
                continue
            found.append((name, history))
        if len(found) == 1:
            return found[0]
        names = ", ".join(name for name, _ in found or ((n, None) for n in self._histories.names))
        why = "more than one project has" if found else "no project has"
        raise CommandRefused("not_found", f"{why} a commit {commit}: name one of {names or 'none'}")

    async def _carry_out(self, plan: Plan[Told]) -> Told:
        """Return the answer to a command once what it made happen is durable."""
        answers: list[Told] = []
        done = anyio.Event()

        def told(answer: Told) -> None:
            answers.append(answer)
            done.set()

        self._mailbox.put(CommandEnvelope(plan, told, failed=done.set))
        await done.wait()
        if not answers:
            raise CommandRefused(INTERNAL_ERROR.code, INTERNAL_ERROR.error)
        return answers[0]


class _Start(NamedTuple):
    """The commit after which a list of several projects goes on."""

    project: str = ""
    commit: str = ""
    at: datetime | None = None

    def asked(self, project: str, names: Sequence[str]) -> dict[str, Any]:
        """Return what narrows down the commits of a project; of one second they come by project."""
        if project == self.project:
            return {"before": self.commit}
        if self.at is None:
            return {}
        listed_before = names.index(project) < names.index(self.project)
        return {"until": self.at - timedelta(seconds=listed_before)}


def _read_rows(
    history: ProjectHistory, question: CommitsQuestion, start: dict[str, Any]
) -> tuple[list[HistoryRow], list[str]]:
    """Return commits, and what is wrong with where they are made."""
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


def _row(project: str, row: HistoryRow) -> CommitRow:
    return CommitRow(
        project=project,
        commit=row.commit,
        at=row.at,
        subject=row.subject,
        agent=row.agent,
        session=row.session,
        action=row.action,
        id=row.id,
        decision=row.decision,
        approver=row.approver,
        files=row.files,
        added=row.added,
        removed=row.removed,
    )


def _pausing(project: str, by: str, reason: str) -> Plan[tuple[str, ...]]:
    def plan(engine: Engine, moment: Moment) -> Carried[tuple[str, ...]]:
        agents = engine.records.version_history.agents(project)
        why = f"project {project} is rolled back: {reason}"
        paused = tuple(
            Paused(at=moment.at, t=moment.t, agent=agent, source=SOURCE, by=by, reason=why)
            for agent in agents
        )
        return Carried(paused, agents)

    return plan


def _going_on(agents: Sequence[str], by: str, reason: str) -> Plan[None]:
    def plan(_engine: Engine, moment: Moment) -> Carried[None]:
        return Carried(tuple(_unpaused(agents, by, reason, moment)), None)

    return plan


def _unpaused(agents: Sequence[str], by: str, reason: str, moment: Moment) -> Iterator[Unpaused]:
    for agent in agents:
        yield Unpaused(
            at=moment.at, t=moment.t, agent=agent, sources=(SOURCE,), by=by, reason=reason
        )


def _not_rolled_back(offer: RollbackOffered, refusal: CommandRefused) -> Plan[None]:
    agents = refusal.agents if isinstance(refusal, HalfRolledBack) else ()

    def plan(_engine: Engine, moment: Moment) -> Carried[None]:
        failed = RollbackFailed(
            at=moment.at,
            t=moment.t,
            project=offer.project,
            commit=offer.commit,
            error=str(refusal),
            agents=agents,
        )
        return Carried((failed,), None)

    return plan


def _rolled_back(
    project: str, by: str, command: RollbackCommand, made: RollbackMade, agents: tuple[str, ...]
) -> Plan[None]:
    def plan(_engine: Engine, moment: Moment) -> Carried[None]:
        rolled_back = RolledBack(
            at=moment.at,
            t=moment.t,
            project=project,
            kind=command.kind,
            commit=command.commit,
            kept=made.kept,
            by=by,
            made=made.made,
            files=made.files,
            agents=agents,
            reason=command.reason,
            via=command.via,
        )
        events: tuple[Event, ...] = (
            rolled_back,
            *_unpaused(agents, by, "the rollback is over", moment),
        )
        return Carried(events, None)

    return plan
