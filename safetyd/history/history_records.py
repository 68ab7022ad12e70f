"""What goes into a history and what comes out of it."""

from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

Why = Literal["after", "before", "rollback"]


class HistoryError(Exception):
    """Why something could not be kept or brought back, in a sentence for people.

    It may name files of agents, so what is no text in it is spelt out.
    """

    def __init__(self, words: str) -> None:
        super().__init__(words.encode("utf-8", "backslashreplace").decode())


class PathElsewhere(HistoryError):
    """A path is not in the folder of the project."""


class StoppedHalfway(HistoryError):
    """Some files were put back and others were not. What was there before is kept."""


class CommitOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit is about. All but `why` and `at` may be an agent's own words."""

    why: Why
    at: datetime
    agent: str = ""
    session: str = ""
    id: str = ""  # of the proposal
    decision: int = 0  # the number of its decision
    action: str = ""  # its type
    description: str = ""
    ticket: str = ""
    approver: str = ""


class CommitMade(NamedTuple):
    """A new commit, and by how many files and lines it differs from the one before."""

    commit: str
    files: int
    added: int
    removed: int


class HistoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """A commit as it is listed."""

    commit: str
    at: datetime
    agent: str
    session: str
    action: str
    id: str
    decision: int
    approver: str
    files: int
    added: int
    removed: int
    subject: str


class RollbackMade(NamedTuple):
    """What was there before, the commit that the rollback made (or nothing), files changed.

    `paths` names the first of them, below the project's folder. `still_deleted` is how many files
    the commit itself had deleted, which going back to it does not bring back.
    """

    kept: str
    made: str
    files: int
    paths: tuple[str, ...] = ()
    still_deleted: int = 0


class Entry(NamedTuple):
    """What a tree has at a path."""

    mode: str  # as git writes it: 100644, 100755, 120000 (a link) or 160000 (a repository)
    object: str


class Change(NamedTuple):
    """How two trees differ at a path; lines are 0 for what has none."""

    path: bytes
    old: Entry | None
    new: Entry | None
    added: int = 0
    removed: int = 0


def shown(path: bytes) -> str:
    """Return a path as a message names it: nothing in it breaks the line."""
    text = path.decode("utf-8", "surrogateescape")
    return text if text.isprintable() else ascii(text)


def named(paths: list[bytes], most: int = 5) -> str:
    """Name some of the paths, and say how many more there are."""
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(map(shown, paths[:most])) + more
