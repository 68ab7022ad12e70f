"""Queries and commands about the files that coding agents load."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from safetyd.operators.contract.question import Command, Question
from safetyd.operators.replies import Done

FolderName = Annotated[str, Meta(min_length=1, max_length=4096)]
StateHash = Annotated[str, Meta(max_length=64)]


class AcceptedFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder whose files an operator accepted. `state` is a hash of the files."""

    host: str  # The coding agent, such as claude.
    folder: str  # The folder from which the agent loads files.
    state: str  # A hash of these files.
    by: str
    at: datetime


class HostFilesAnswer(Done, frozen=True, kw_only=True):
    """Folders, the latest first. `left_out` is how many did not fit."""

    folders: tuple[AcceptedFolder, ...]  # The accepted folders.
    left_out: int


class HostFilesQuestion(Question[HostFilesAnswer], frozen=True, tag="host_files"):
    """List the accepted folders from which coding agents load files."""


class AcceptFilesCommand(Command[Done], frozen=True, kw_only=True, tag="accept_files"):
    """Accept the files that a coding agent loads, in the states that `safetyd protect` found.

    A state is a hash of the files in a folder. It is empty if there are none.
    """

    host: Annotated[str, Meta(min_length=1, max_length=64)]  # The coding agent, such as claude.
    # The hash of the files in each folder; empty if there are none.
    states: Annotated[dict[FolderName, StateHash], Meta(min_length=1, max_length=100)]
