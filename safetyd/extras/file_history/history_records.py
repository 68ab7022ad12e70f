"""The records of file histories: orders, commits, changes and errors."""

from datetime import datetime
from typing import Final, Literal, NamedTuple

import msgspec

from safetyd.core.events.disk_words import size as size_words

MOST_NAMED: Final = 20  # files of a commit or a rollback that are listed by name

# Why a commit was made: after an agent's action that succeeded or failed; while several agents
# worked, so that the author is unknown; before an action or a rollback, for changes by a human; by
# an operator's rollback; or by an automatic rollback.
Why = Literal["after", "failed", "unknown", "before", "rollback", "automatic_rollback"]


class HistoryError(Exception):
    """A commit or rollback failed. The text is a sentence for operators.

    It may name files of agents, so invalid characters are escaped.
    """

    def __init__(self, words: str) -> None:
        super().__init__(words.encode("utf-8", "backslashreplace").decode())


class PathElsewhere(HistoryError):
    """A path is outside of the project's folder."""


class StoppedHalfway(HistoryError):
    """Only some files were restored. `kept` is the commit with the previous state."""

    def __init__(self, words: str, kept: str) -> None:
        super().__init__(words)
        self.kept = kept


class CommitOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a commit message. All except `why` and `at` may contain text from agents."""

    why: Why
    at: datetime
    agent: str = ""
    session: str = ""
    id: str = ""  # the id of the proposal
    decision: int = 0  # the number of its decision
    action: str = ""  # the type of the action
    description: str = ""
    ticket: str = ""
    approver: str = ""
    target: str = ""  # the commit that a rollback restores or undoes
    left_out: str = ""  # files that are too large


class CommitPart(NamedTuple):
    """The part of a folder to commit: these paths, or if there are none, all but `apart`.

    `until_ns` limits it to files last changed before that time of the file clock.
    """

    paths: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    until_ns: int | None = None


WHOLE: Final = CommitPart()


class CommitMade(NamedTuple):
    """A new commit, and how many files and lines changed."""

    commit: str
    files: int
    added: int
    removed: int
    left_out: tuple["LeftOut", ...] = ()


class LeftOut(NamedTuple):
    """A file that is missing or outdated in a commit, and why."""

    path: bytes
    size: int
    reason: str

    @property
    def why(self) -> str:
        return f"({size_words(self.size)}): {self.reason}"

    def __str__(self) -> str:
        return f"{shown(self.path)} {self.why}"


class Entry(NamedTuple):
    """An entry of a tree."""

    mode: str  # as git writes it: 100644, 100755, 120000 (a link) or 160000 (a repository)
    object: str


class Change(NamedTuple):
    """A difference of two trees at a path; line counts are 0 for binary files."""

    path: bytes
    old: Entry | None
    new: Entry | None
    added: int = 0
    removed: int = 0

    @property
    def effect(self) -> Literal["created", "restored", "deleted"]:
        """Return the effect on the file when `old` becomes `new`."""
        if self.new is None:
            return "deleted"
        return "created" if self.old is None else "restored"


def shown(path: bytes) -> str:
    """Return a path for a message, on one line."""
    text = path.decode("utf-8", "surrogateescape")
    return text if text.isprintable() else ascii(text)


def named(paths: list[bytes], most: int = 5) -> str:
    """Name some paths, and how many more there are."""
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(map(shown, paths[:most])) + more
