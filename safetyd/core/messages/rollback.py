"""The notice that agents receive after a rollback."""

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec

RollbackKind = Literal["soft", "revert", "hard"]  # hard: only in journals of earlier versions


class Rollback(msgspec.Struct, frozen=True, kw_only=True):
    """Files of a project were restored. Agents that work there must read them again."""

    project: str  # The name of the project.
    kind: RollbackKind  # soft restores the state after a commit; revert undoes a commit.
    commit: str  # The commit that was restored or undone.
    files: int  # How many files changed.
    agents: tuple[str, ...]  # The agents that work in the project.
    reason: str  # The operator's reason.
    at: datetime  # When the files were restored.


def current_kind(kind: RollbackKind) -> Literal["soft", "revert"]:
    """Return soft instead of hard, because soft restores the same files as hard did."""
    return "soft" if kind == "hard" else kind


def rollback_command(
    project: str, commit: str, kind: RollbackKind = "soft", paths: Sequence[str] = ()
) -> str:
    """Return the command that rolls a project back."""
    option = f"--{current_kind(kind)}"
    words = ("safetyd", "rollback", commit[:12], option, *paths, "--project", project)
    return f"{shlex.join(words)} --reason WHY"
