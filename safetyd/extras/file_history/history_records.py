"""What goes into a history and what comes out of it."""

from datetime import datetime
from typing import Final, Literal, NamedTuple

import msgspec

from safetyd.core.events.disk_words import size as size_words

MOST_NAMED: Final = 20  # files of a commit or a rollback

# Who made the changes of a commit: an agent whose action succeeded or failed, a human (they were
# found before something else), an operator who rolled back, or safetyd itself.
Why = Literal["after", "failed", "before", "rollback", "automatic_rollback"]


class HistoryError(Exception):
    """Why something could not be kept or brought back, in a sentence for people.

    It may name files of agents, so what is no text in it is spelt out.
    """

    def __init__(self, words: str) -> None:
        super().__init__(words.encode("utf-8", "backslashreplace").decode())


class PathElsewhere(HistoryError):
    """A path is not in the folder of the project."""


class StoppedHalfway(HistoryError):
    """Some files were put back and others were not. `kept` is the commit from before."""

    def __init__(self, words: str, kept: str) -> None:
        super().__init__(words)
        self.kept = kept


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
    target: str = ""  # of a rollback: the commit that it goes back to, or undoes
    left_out: str = ""  # files that are too large for the commit


class CommitMade(NamedTuple):
    """A new commit, and by how many files and lines it differs from the one before."""

    commit: str
    files: int
    added: int
    removed: int
    left_out: tuple["LeftOut", ...] = ()


class LeftOut(NamedTuple):
    """A file that a commit does not have as it is in the folder, and why."""

    path: bytes
    size: int
    reason: str

    @property
    def why(self) -> str:
        return f"({size_words(self.size)}): {self.reason}"

    def __str__(self) -> str:
        return f"{shown(self.path)} {self.why}"


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

    @property
    def effect(self) -> Literal["created", "restored", "deleted"]:
        """Return what happens to the file when `old` becomes `new`."""
        if self.new is None:
            return "deleted"
        return "created" if self.old is None else "restored"


def shown(path: bytes) -> str:
    """Return a path as a message names it: nothing in it breaks the line."""
    text = path.decode("utf-8", "surrogateescape")
    return text if text.isprintable() else ascii(text)


def named(paths: list[bytes], most: int = 5) -> str:
    """Name some of the paths, and say how many more there are."""
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(map(shown, paths[:most])) + more
