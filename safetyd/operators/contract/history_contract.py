"""File history: commits of projects, and rollbacks."""

import shlex
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from safetyd.operators.contract.hold_contract import Via
from safetyd.operators.contract.question import Command, Question
from safetyd.operators.replies import Done

MOST: Final = 200  # maximum number of commits in one answer
SHORT: Final = 12  # how many characters of a commit id are shown
Author = Literal["agent", "unknown", "human", "rollback", "automatic_rollback"]
Name = Annotated[str, Meta(max_length=128)]
CommitName = Annotated[str, Meta(pattern="^[0-9a-f]{4,64}$")]


class CommitRow(msgspec.Struct, frozen=True, kw_only=True):
    project: str
    commit: str
    at: datetime
    subject: str
    agent: str
    session: str
    action: str  # The type of the proposal.
    id: str  # The id of the proposal.
    decision: int  # The number of the decision.
    approver: str
    files: int
    added: int
    removed: int
    # The author of the changes. `unknown`: one of several agents, which the subject names.
    # `human`: changes that no agent reported.
    author: Author = "agent"
    left_out: str = ""  # Files that the commit omits because they are too large.


class CommitsAnswer(Done, frozen=True, kw_only=True):
    """Commits, newest first. `problems` say why projects cannot be committed.

    `projects` are those with a file history.
    """

    commits: tuple[CommitRow, ...]
    projects: tuple[str, ...]
    problems: tuple[str, ...] = ()


class CommitsQuestion(Question[CommitsAnswer], frozen=True, kw_only=True, tag="commits"):
    """List commits of projects with a file history, newest first.

    Filter by project, agent or session. `path` is a changed file or folder, absolute or relative to
    the project. `before` is the last commit of the previous answer.
    """

    paths = ("/commits",)
    project: Name = ""
    agent: Name = ""
    session: Name = ""
    limit: Annotated[int, Meta(ge=1, le=MOST)] = 20
    path: Annotated[str, Meta(max_length=4096)] = ""
    since: Annotated[datetime, Meta(tz=True)] | None = None
    before: Annotated[str, Meta(pattern="^([0-9a-f]{4,64})?$")] = ""


class CommitAnswer(Done, frozen=True, kw_only=True):
    project: str
    commit: str
    message: str
    diff: str


class CommitQuestion(Question[CommitAnswer], frozen=True, kw_only=True, tag="commit"):
    """Show one commit and its diff.

    With `other`, show the diff between the two commits.
    """

    paths = ("/commits/{commit}",)
    commit: CommitName
    project: Name = ""
    other: Annotated[str, Meta(pattern="^([0-9a-f]{4,64})?$")] = ""


def diff_command(project: str, commit: str) -> str:
    """Return the command that shows everything a commit changed."""
    return f"safetyd history diff {commit[:SHORT]} --project {shlex.quote(project)}"


class FileEffect(msgspec.Struct, frozen=True):
    """The effect of a rollback on a file."""

    path: str
    what: Literal["created", "restored", "deleted"]


class LeftAlone(msgspec.Struct, frozen=True):
    """A file or folder that a rollback did not change, and why."""

    path: str
    why: str


class RollbackDone(Done, frozen=True, kw_only=True):
    """A finished rollback. To undo it, roll back to `kept`, the commit of the previous state.

    `paths` lists the first 20 changed files, and `changes` says what happened to each. The counts
    are for all files. `still_deleted` is how many files the commit itself had deleted; only
    `revert` restores those. `left` lists the first 20 files that are not in the history and were
    not changed. If `files` is 0, nothing differed.
    """

    project: str
    kept: str
    made: str
    files: int
    agents: tuple[str, ...]  # Agents that were paused during the rollback.
    paths: tuple[str, ...] = ()
    still_deleted: int = 0
    changes: tuple[FileEffect, ...] = ()
    created: int = 0
    restored: int = 0
    deleted: int = 0
    left: tuple[LeftAlone, ...] = ()  # The first files and folders that were not touched.
    left_count: int = 0


class RollbackCommand(Command[RollbackDone], frozen=True, kw_only=True, tag="rollback"):
    """Restore files of a project.

    Agents that work in the project are paused during the rollback. `soft` restores the state after
    a commit, `revert` undoes one commit.
    """

    commit: CommitName
    kind: Literal["soft", "revert"]
    reason: Annotated[str, Meta(min_length=1, max_length=1000)]
    project: Name = ""
    paths: tuple[Annotated[str, Meta(max_length=4096)], ...] = ()
    via: Via = ""
