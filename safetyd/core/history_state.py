"""Records of the file history that checkpoints contain."""

import msgspec

from safetyd.core.events.history_events import CommitDue
from safetyd.core.messages.rollback import Rollback, RollbackKind


class Change(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An action under way that may change the files of a project."""

    project: str
    decision: int
    session: str = ""
    type: str = ""
    description: str = ""
    ticket: str = ""
    approver: str = ""
    paths: tuple[str, ...] = ()  # absolute paths of its first files


class UnfinishedRollback(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rollback that is running, or that stopped halfway (`error` says why).

    `kept` is the commit of the folder before the first file changed; empty if none changed yet.
    """

    project: str
    commit: str
    kind: RollbackKind
    by: str
    agents: tuple[str, ...] = ()
    error: str = ""
    kept: str = ""
    since: int = 0  # the seq of the event that started it
    paths: tuple[str, ...] = ()  # the files and folders that it is limited to


class HistoryTrouble(msgspec.Struct, frozen=True, kw_only=True):
    """Why a project's file history needs an operator: failed commits, or an unfinished rollback."""

    project: str
    commit_error: str = ""
    rollback: UnfinishedRollback | None = None


class ProjectState(msgspec.Struct, omit_defaults=True):
    errors: int = 0  # in a row
    good: str = ""  # the last commit after a successful action
    agents: list[str] = []  # agents that worked in the project, the latest last
    keyed: bool = False  # at least one of these agents has a key
    rollback: Rollback | None = None  # the last one
    failing: str = ""  # why the last commit failed
    unfinished: UnfinishedRollback | None = None


class FailedCommit(msgspec.Struct, frozen=True):
    """A commit to retry. It includes only files that changed before a given time."""

    due: CommitDue
    until_ns: int


class HistoryState(msgspec.Struct):
    under_way: dict[str, dict[str, Change]] = {}  # by agent and id, oldest first
    due: dict[int, CommitDue] = {}  # pending commits, oldest first
    projects: dict[str, ProjectState] = {}
    failed: dict[int, FailedCommit] = {}  # oldest first
