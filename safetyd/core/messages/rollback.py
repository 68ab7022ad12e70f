"""What agents are told when files of a project were put back."""

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec

RollbackKind = Literal["soft", "revert", "hard"]  # hard: only in journals of earlier versions


class Rollback(msgspec.Struct, frozen=True, kw_only=True):
    """Files of a project were put back; told once, and those that work there read them anew."""

    project: str  # The project.
    kind: RollbackKind  # soft goes to the state after a commit, revert undoes one commit.
    commit: str  # The commit that was restored or undone.
    files: int  # How many files changed.
    agents: tuple[str, ...]  # The agents that work in the project.
    reason: str  # Why, in the words of the person.
    at: datetime  # When it was done.


def rollback_command(
    project: str, commit: str, kind: RollbackKind = "soft", paths: Sequence[str] = ()
) -> str:
    """Return what an operator types to roll a project back."""
    words = ("safetyd", "rollback", commit[:12], f"--{kind}", *paths, "--project", project)
    return f"{shlex.join(words)} --reason WHY"
