"""File history: commits of projects, and rollbacks."""

import shlex
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from safetyd.operators.contract.hold_contract import Via
from safetyd.operators.contract.question import Command, Question
from safetyd.operators.replies import Done

MOST: Final = 200  # commits of one answer
SHORT: Final = 12  # letters of a commit that name it
Author = Literal["agent", "human", "rollback", "automatic_rollback"]
Name = Annotated[str, Meta(max_length=128)]
CommitName = Annotated[str, Meta(pattern="^[0-9a-f]{4,64}$")]


class CommitRow(msgspec.Struct, frozen=True, kw_only=True):
    project: str
    commit: str
    at: datetime
    subject: str
    agent: str
    session: str
    action: str  # the type of the proposal
    id: str  # of the proposal
    decision: int  # the number of its decision
    approver: str
    files: int
    added: int
    removed: int
    # Who made the changes. Changes of a human are those found before another commit.
    author: Author = "agent"
    left_out: str = ""  # files that it lacks because they are too large


class CommitsAnswer(Done, frozen=True, kw_only=True):
    """The newest first. `projects` are those that have a history, `problems` why one has none."""

    commits: tuple[CommitRow, ...]
    projects: tuple[str, ...]
    problems: tuple[str, ...] = ()


class CommitsQuestion(Question[CommitsAnswer], frozen=True, kw_only=True, tag="commits"):
    """List commits of projects with a history, newest first.

    Those of one project, or of all; of an agent, or of one of its sessions. `path` is a file or
    a folder that they changed, absolute or below the project's folder. `before` is the last
    commit of the answer before: the list goes on after it.
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
    """Show one commit and what it changed.

    With `other`, what leads from it to that one.
    """

    paths = ("/commits/{commit}",)
    commit: CommitName
    project: Name = ""
    other: Annotated[str, Meta(pattern="^([0-9a-f]{4,64})?$")] = ""


def diff_command(project: str, commit: str) -> str:
    """Return what to type to see all that a commit changed."""
    return f"safetyd history diff {commit[:SHORT]} --project {shlex.quote(project)}"


class FileEffect(msgspec.Struct, frozen=True):
    """What a rollback did to a file."""

    path: str
    what: Literal["created", "restored", "deleted"]


class LeftAlone(msgspec.Struct, frozen=True):
    """A file or folder that a rollback did not touch, and why."""

    path: str
    why: str


class RollbackDone(Done, frozen=True, kw_only=True):
    """`kept` is the commit of what was there before: rolling back to it undoes this.

    `paths` names the first 20 files that changed. `still_deleted` is how many files the commit
    itself had deleted: going back to it does not bring them back, but undoing it (`revert`) does.
    `changes` says what happened to each file of `paths`, and the counts are of all files.
    `left` names the first 20 files that are not in the history, and so were not touched.
    With no `files` there was nothing to change.
    """

    project: str
    kept: str
    made: str
    files: int
    agents: tuple[str, ...]  # that were paused meanwhile
    paths: tuple[str, ...] = ()
    still_deleted: int = 0
    changes: tuple[FileEffect, ...] = ()
    created: int = 0
    restored: int = 0
    deleted: int = 0
    left: tuple[LeftAlone, ...] = ()  # the first files and folders that were not touched
    left_count: int = 0


class RollbackCommand(Command[RollbackDone], frozen=True, kw_only=True, tag="rollback"):
    """Restore files of a project.

    Agents that work there are paused meanwhile. `soft` goes to the state after a commit,
    `revert` undoes one.
    """

    commit: CommitName
    kind: Literal["soft", "revert"]
    reason: Annotated[str, Meta(min_length=1, max_length=1000)]
    project: Name = ""
    paths: tuple[Annotated[str, Meta(max_length=4096)], ...] = ()
    via: Via = ""
