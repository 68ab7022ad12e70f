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
    paths: tuple[str, ...] = ()  # the first files that it names, absolute


class UnfinishedRollback(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rollback that began and has not ended, or that stopped halfway (`error` says why).

    `kept` is the commit of the folder before the first file changed; empty if none changed yet.
    """

    project: str
    commit: str
    kind: RollbackKind
    by: str
    agents: tuple[str, ...] = ()
    error: str = ""
    kept: str = ""
    since: int = 0  # the number of the event that it began with
    paths: tuple[str, ...] = ()  # the files and folders that it is limited to


class HistoryTrouble(msgspec.Struct, frozen=True, kw_only=True):
    """Why the history of a project needs a person: commits fail, or a rollback is unfinished."""

    project: str
    commit_error: str = ""
    rollback: UnfinishedRollback | None = None


class ProjectState(msgspec.Struct, omit_defaults=True):
    errors: int = 0  # in a row
    good: str = ""  # the last commit after which an action had succeeded
    agents: list[str] = []  # who worked there, the latest last
    keyed: bool = False  # one of them has a key
    rollback: Rollback | None = None  # the last one
    failing: str = ""  # why the last commit was not made
    unfinished: UnfinishedRollback | None = None


class FailedCommit(msgspec.Struct, frozen=True):
    """A commit to try again, with the files that changed before a time of the file clock."""

    due: CommitDue
    until_ns: int


class HistoryState(msgspec.Struct):
    under_way: dict[str, dict[str, Change]] = {}  # by agent and id, oldest first
    due: dict[int, CommitDue] = {}  # commits that are not made yet, oldest first
    projects: dict[str, ProjectState] = {}
    failed: dict[int, FailedCommit] = {}  # oldest first
