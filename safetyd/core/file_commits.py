"""Decides when files are committed: after each action, and before an irreversible one.

An action belongs to the project that it names. If that project has no file history, the action
belongs to the enclosing project that has one. An action that names no project belongs to the
project that contains its files or its folder, or else to the default project.

After several errors in a row in a project, safetyd offers a rollback.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec.structs import asdict, replace

from safetyd.core.actor import Actor, hearing, later, on
from safetyd.core.events.decision_events import Decided, Overdue, Settled
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.guard_events import NameForgotten
from safetyd.core.events.history_events import (
    CommitDue,
    CommitFailed,
    Committed,
    RollbackBegun,
    RollbackCancelled,
    RollbackFailed,
    RollbackOffered,
    RolledBack,
)
from safetyd.core.guards.projects import ProjectConfig
from safetyd.core.history_state import (
    Change,
    FailedCommit,
    HistoryState,
    HistoryTrouble,
    ProjectState,
    UnfinishedRollback,
)
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.rollback import Rollback
from safetyd.core.messages.verdict import ALLOW
from safetyd.core.text.path_globs import place

ERRORS_IN_A_ROW: Final = 3
MAX_CHANGES: Final = 1024  # maximum open changes of one agent; then the oldest is forgotten
MAX_FAILED: Final = 64  # maximum failed commits of a project to retry; then the oldest is forgotten
MAX_AGENTS: Final = 64  # maximum agents remembered for one project
DESCRIPTION_CHARS: Final = 200
MAX_NAMED: Final = 16  # maximum stored paths of one action
MAX_APART: Final = 256  # maximum paths of other actions that a commit leaves out

Projects = Mapping[str, ProjectConfig]
Why = Literal["after", "failed", "before"]
_WITHOUT_FILES: Final = frozenset({"model_call"})  # types that change no files


class CommitFirst(NamedTuple):
    """The step that must precede an action: a pending commit, or a check for people's changes."""

    due: CommitDue | None = None
    change: Change | None = None
    behind: bool = False  # another commit of the project is pending


class FileCommits(Actor):
    """Decides when files are committed. `approver` returns the operator who approved a proposal."""

    name = "version_history"
    _state: HistoryState

    def __init__(
        self, projects: Projects, approver: Callable[[str, str], str], default: str = ""
    ) -> None:
        self._approver = approver
        self._projects = {name: one for name, one in projects.items() if one.committed}
        self._all = dict(projects)
        self._default = default if default in self._projects else ""
        self._roots = sorted(
            ((one.root.rstrip("/") + "/", name) for name, one in self._projects.items()),
            reverse=True,  # inner folders first
        )
        self._state = HistoryState()
        self.hears = hearing(
            on(Decided, self._decided),
            later(self._begun),
            on(Settled, self._settled),
            on(Overdue, self._given_up),
            on(CommitDue, self._due),
            on(Committed, self._committed),
            on(CommitFailed, self._failed),
            on(RollbackBegun, self._rollback_begun),
            on(RollbackCancelled, self._rollback_cancelled),
            on(RollbackFailed, self._rollback_failed),
            on(RolledBack, self._rolled_back),
            on(NameForgotten, self._forgotten),
        )

    @property
    def due(self) -> tuple[CommitDue, ...]:
        """The pending commits, oldest first."""
        return tuple(self._state.due.values())

    @property
    def failed(self) -> tuple[FailedCommit, ...]:
        """The failed commits to retry, oldest first."""
        return tuple(self._state.failed.values())

    def first(self, agent: str, id_: str) -> CommitFirst | None:
        """Return the step that must precede an action, if any.

        That is its pending commit, or a check for changes by people in the folder of its project.
        Return None if another action is open in the project, because that action may have made the
        changes.
        """
        for due in self._state.due.values():
            if due.why == "before" and (due.agent, due.id) == (agent, id_):
                return CommitFirst(due=due)
        change = self._state.under_way.get(agent, {}).get(id_)
        if change is None:
            return None
        if self.is_due(change.project):
            return CommitFirst(change=change, behind=True)
        others = (
            one
            for whose, mine in self._state.under_way.items()
            for name, one in mine.items()
            if (whose, name) != (agent, id_)
        )
        alone = not any(one.project == change.project for one in others)
        return CommitFirst(change=change) if alone else None

    def is_due(self, project: str) -> bool:
        """Return True if a commit of a project is pending."""
        return any(due.project == project for due in self.due)

    def agents(self, project: str) -> tuple[str, ...]:
        """Return the agents of a project, and of projects with overlapping folders."""
        known = self._state.projects.get(project, ProjectState())
        listed = (name for one in self._sharing(project) for name in one.agents)
        return tuple(dict.fromkeys((*listed, *known.agents)))

    def _sharing(self, project: str) -> Sequence[ProjectConfig]:
        """Return a project and those whose folders overlap with its folder."""
        here = self._projects.get(project)
        if here is None:
            return ()
        others = (
            one for one in self._all.values() if one is not here and share(one.root, here.root)
        )
        return (here, *others)

    def stopped_rollback(self, project: str) -> UnfinishedRollback | None:
        """Return the rollback of a project that stopped halfway, unless a later one finished."""
        unfinished = self._state.projects.get(project, ProjectState()).unfinished
        return unfinished if unfinished is not None and unfinished.error else None

    @property
    def trouble(self) -> tuple[HistoryTrouble, ...]:
        """The projects whose file history needs an operator, by name."""
        return tuple(
            HistoryTrouble(project=name, commit_error=known.failing, rollback=known.unfinished)
            for name, known in sorted(self._state.projects.items())
            if name in self._projects and (known.failing or known.unfinished)
        )

    def good(self, project: str) -> str:
        """Return the last commit after a successful action, or an empty string."""
        return self._state.projects.get(project, ProjectState()).good

    def rollbacks(self, agent: str) -> tuple[Rollback, ...]:
        """Return the last rollback of each project of an agent, oldest first."""
        known = (one.rollback for one in self._state.projects.values())
        mine = (rollback for rollback in known if rollback and agent in rollback.agents)
        return tuple(sorted(mine, key=lambda rollback: rollback.at))

    def _decided(self, event: Decided) -> Sequence[Event]:
        return self._begun(event) if event.decision is ALLOW else ()

    def _begun(self, event: Decided) -> Sequence[Event]:
        project = self._project_of(event)
        if not project or event.reversibility == "read_only" or event.type in _WITHOUT_FILES:
            return ()
        approver = event.uses.by if event.uses else self._approver(event.agent, event.id)
        change = _change(event, project, approver, self._root_of(event.proposal))
        shared_with = {agent: None for agent, one in self._open() if one.project == project}
        mine = self._state.under_way.setdefault(event.agent, {})
        mine[event.id] = change
        if len(mine) > MAX_CHANGES:
            del mine[next(iter(mine))]
        forever = approver and event.reversibility == "irreversible"
        if forever and self._projects[project].before_irreversible:
            due = commit_due(event, event.agent, event.id, change, "before")
            return (replace(due, shared_with=tuple(shared_with)),)
        return ()

    def _open(self) -> Iterator[tuple[str, Change]]:
        """Yield the actions under way, with their agents."""
        for agent, changes in self._state.under_way.items():
            for change in changes.values():
                yield agent, change

    def _own_part(self, due: CommitDue, change: Change) -> CommitDue:
        """Limit a commit to the changes of one action, if others are open in its project."""
        others = [named for named in self._open() if named[1].project == change.project]
        anywhere = dict.fromkeys(agent for agent, other in others if not other.paths)
        if change.paths and anywhere:
            return replace(due, paths=change.paths)
        paths = {path: None for _, other in others for path in other.paths}
        apart = [path for path in paths if path not in change.paths]
        shared_with = tuple(agent for agent in anywhere if agent != due.agent)
        return replace(due, apart=tuple(apart[:MAX_APART]), shared_with=shared_with)

    def _settled(self, event: Settled) -> Sequence[Event]:
        change = self._ended(event.agent, event.id or "")
        if change is None or change.project not in self._projects:
            return ()
        why: Why = "after" if event.ok else "failed"
        whole = commit_due(event, event.agent, event.id or "", change, why)
        due = (self._own_part(whole, change),)
        known = self._state.projects.setdefault(change.project, ProjectState())
        belongs = self._belongs(event, change.project, known)
        if belongs or not event.keyless:
            known.agents = [*(one for one in known.agents if one != event.agent), event.agent]
            del known.agents[:-MAX_AGENTS]
            known.keyed = known.keyed or not event.keyless
        if not belongs:
            return due
        if event.ok:
            known.errors = 0
            return due
        known.errors += 1
        limit = self._projects[change.project].errors_in_a_row or ERRORS_IN_A_ROW
        if known.errors != limit or not known.good:
            return due
        return (
            *due,
            RollbackOffered(
                at=event.at,
                t=event.t,
                project=change.project,
                agent=event.agent,
                errors=known.errors,
                commit=known.good,
            ),
        )

    def _belongs(self, event: Settled, project: str, known: ProjectState) -> bool:
        """Return True if an agent belongs to a project, so that its errors count there.

        Any agent may name any project, and a rollback pauses other agents. If a project lists
        agents, only those belong to it. Otherwise all do, but anonymous agents only until an agent
        with a key has worked there.
        """
        listed = self._projects[project].agents
        return event.agent in listed if listed else not (event.keyless and known.keyed)

    def _given_up(self, event: Overdue) -> None:
        for id_ in event.ids:
            self._ended(event.agent, id_)

    def _ended(self, agent: str, id_: str) -> Change | None:
        mine = self._state.under_way.get(agent, {})
        change = mine.pop(id_, None)
        if not mine:
            self._state.under_way.pop(agent, None)
        return change

    def _due(self, event: CommitDue) -> None:
        self._state.due[event.seq] = event

    def _committed(self, event: Committed) -> None:
        self._state.due.pop(event.due, None)
        self._state.failed.pop(event.due, None)
        known = self._state.projects.setdefault(event.project, ProjectState())
        if not any(one.due.project == event.project for one in self.failed):
            known.failing = ""
        if event.why != "after":
            return
        if known.unfinished is not None and event.decision > known.unfinished.since:
            known.unfinished = None  # agents work in the project again
        if event.commit:
            known.good = event.commit

    def _failed(self, event: CommitFailed) -> None:
        due = self._state.due.pop(event.due, None)
        self._state.projects.setdefault(event.project, ProjectState()).failing = event.error
        if due is None or not event.until_ns:
            return
        failed = self._state.failed
        failed[event.due] = FailedCommit(due, event.until_ns)
        mine = [number for number, one in failed.items() if one.due.project == event.project]
        for number in mine[:-MAX_FAILED]:
            del failed[number]

    def _rollback_begun(self, event: RollbackBegun) -> None:
        known = self._state.projects.setdefault(event.project, ProjectState())
        before = known.unfinished
        if before is None or event.kept:
            known.unfinished = _unfinished(event, before.error if before else "")

    def _rollback_cancelled(self, event: RollbackCancelled) -> None:
        if self.stopped_rollback(event.project) is None:
            self._state.projects.setdefault(event.project, ProjectState()).unfinished = None

    def _rollback_failed(self, event: RollbackFailed) -> None:
        known = self._state.projects.setdefault(event.project, ProjectState())
        if event.half:
            known.unfinished = _unfinished(event, event.error)

    def _rolled_back(self, event: RolledBack) -> None:
        known = self._state.projects.setdefault(event.project, ProjectState())
        known.errors = 0
        known.rollback = notice(event)
        known.unfinished = None

    def _forgotten(self, event: NameForgotten) -> None:
        self._state.under_way.pop(event.agent, None)

    def _project_of(self, event: Decided) -> str:
        proposal = event.proposal
        if proposal.project is not None and proposal.project in self._projects:
            return proposal.project
        places = [*_named(event, ""), proposal.cwd or ""]
        # A project without file history may be inside a project that has one.
        if proposal.project is not None:
            places = [self._root_of(proposal)]
        for root, name in self._roots:
            if any(f"{place}/".startswith(root) for place in places):
                return name
        return self._default if proposal.project is None else ""

    def _root_of(self, proposal: Proposal) -> str:
        named = self._all.get(proposal.project or "")
        return "" if named is None else named.root


def share(root: str, other: str) -> bool:
    """Return True if one folder contains the other."""
    one, two = root.rstrip("/") + "/", other.rstrip("/") + "/"
    return bool(root and other) and (one.startswith(two) or two.startswith(one))


def notice(event: RolledBack) -> Rollback:
    """Return the notice of a rollback for agents."""
    return msgspec.convert(event, Rollback, from_attributes=True)


def _unfinished(event: RollbackBegun | RollbackFailed, error: str) -> UnfinishedRollback:
    found = msgspec.convert(event, UnfinishedRollback, from_attributes=True)
    return replace(found, error=error, since=event.seq)


def _change(event: Decided, project: str, approver: str, root: str) -> Change:
    proposal = event.proposal
    return Change(
        project,
        event.seq,
        proposal.session or "",
        event.type,
        (proposal.description or proposal.text)[:DESCRIPTION_CHARS],
        proposal.task or "",
        approver,
        _first_named(event, root),
    )


def _first_named(event: Decided, root: str) -> tuple[str, ...]:
    """Return the files that an action names, or none if there are too many to store."""
    named = tuple(dict.fromkeys(_named(event, root)))
    return named if len(named) <= MAX_NAMED else ()


def _named(event: Decided, root: str) -> Iterator[str]:
    """Yield the absolute paths of the files that an action names."""
    for path in (*event.resolved, *event.proposal.paths):
        where = place(path, root, event.proposal.cwd)
        if where.path.startswith("/"):
            yield where.path


def commit_due(cause: Event | Moment, agent: str, id_: str, change: Change, why: Why) -> CommitDue:
    """Return the event for a commit after or before an action."""
    about = asdict(change)
    del about["paths"]
    return CommitDue(at=cause.at, t=cause.t, why=why, agent=agent, id=id_, **about)
