"""What happens to the files that agents change: commits, rollbacks, and the daily snapshot."""

from datetime import date, timedelta
from typing import Final, Literal

from safetyd.core.events.event import Event
from safetyd.core.messages.rollback import RollbackKind

MOST_MISSED: Final = 30  # days of one event


class CommitDue(Event, kw_only=True, omit_defaults=True, tag="commit_due"):
    """The folder of a project is to be committed: after an action, or before one for good."""

    project: str
    why: Literal["after", "failed", "before"]
    agent: str
    id: str  # of the proposal
    decision: int  # the number of its decision
    session: str = ""
    type: str = ""
    description: str = ""
    ticket: str = ""
    approver: str = ""


class Committed(Event, kw_only=True, omit_defaults=True, tag="committed"):
    """A commit of the folder of a project.

    `why` says who made the changes in it: an agent whose action succeeded (`after`) or `failed`, or
    a human, whose changes were found `before` an action. Rollbacks are `RolledBack`.
    """

    project: str
    commit: str  # empty if nothing had changed since the commit before
    due: int = 0  # the number of the event that it follows; 0 if no event asked for it
    why: Literal["after", "failed", "before", "rollback"]
    agent: str = ""
    session: str = ""
    id: str = ""  # of the proposal
    decision: int = 0  # the number of its decision
    files: int = 0
    added: int = 0  # lines
    removed: int = 0
    left_out: tuple[str, ...] = ()  # the first files that are too large for it, with the reason
    left_out_files: int = 0  # how many there are
    within: str = ""  # without a commit of its own: the one made meanwhile, with several changes


class CommitFailed(Event, kw_only=True, omit_defaults=True, tag="commit_failed"):
    """What an action left, or was about to change, is not in the history of its project."""

    project: str
    error: str
    due: int = 0
    agent: str | None = None
    id: str = ""
    until_ns: int = 0  # it is tried again, with what changed before this time; 0: it is not


class RollbackOffered(Event, kw_only=True, tag="rollback_offered"):
    """So many actions in a row failed in a project that going back may be better."""

    project: str
    agent: str
    errors: int
    commit: str  # the last after which an action had succeeded


class RollbackBegun(Event, kw_only=True, omit_defaults=True, tag="rollback_begun"):
    """A rollback is under way until `RolledBack`, `RollbackCancelled` or `RollbackFailed`.

    It is recorded again, with `kept`, before the first file changes.
    """

    project: str
    kind: RollbackKind
    commit: str
    by: str
    agents: tuple[str, ...] = ()  # paused meanwhile
    reason: str = ""
    kept: str = ""  # the commit that undoes it
    paths: tuple[str, ...] = ()  # the files and folders that it is limited to


class RollbackCancelled(Event, kw_only=True, tag="rollback_cancelled"):
    """A rollback changed no file: it was refused, or there was nothing to change."""

    project: str
    commit: str
    by: str
    why: str


class RolledBack(Event, kw_only=True, omit_defaults=True, tag="rolled_back"):
    """Files are again as they were. `kept` is the commit of what was there before."""

    project: str
    kind: RollbackKind
    commit: str
    kept: str
    by: str
    made: str = ""  # the commit that the rollback made; empty in old journals
    files: int = 0
    agents: tuple[str, ...] = ()  # those that work there, paused meanwhile
    reason: str = ""
    via: str = ""


class RollbackFailed(Event, kw_only=True, omit_defaults=True, tag="rollback_failed"):
    """A rollback stopped halfway, or safetyd was to go back by itself and could not."""

    project: str
    commit: str
    error: str
    agents: tuple[str, ...] = ()  # that stay paused, because files are neither as before nor back
    half: bool = False  # some files were put back and others were not
    kind: RollbackKind = "soft"
    by: str = ""
    kept: str = ""  # the commit of the folder before the first file changed
    paths: tuple[str, ...] = ()  # the files and folders that it was limited to


class SnapshotTaken(Event, kw_only=True, omit_defaults=True, tag="snapshot_taken"):
    day: str  # as 2026-03-01, of the configured zone
    files: int
    size: int  # bytes
    late: bool = False  # its hour was missed, and it was made up for


class BackupMade(Event, kw_only=True, omit_defaults=True, tag="backup_made"):
    """Somebody has written everything up to an event into a file."""

    by: str
    upto: int  # the number of that event
    size: int  # bytes
    keys: bool = False  # they are in it, encrypted
    history: bool = False  # and the stores of version history


class WeekArchived(Event, kw_only=True, tag="week_archived"):
    """The last snapshot of a week is in an archive."""

    week: str  # as 2026-W07
    size: int  # bytes


class ArchiveFailed(Event, kw_only=True, tag="archive_failed"):
    """A week has no archive; it is tried again, and its last snapshot stays."""

    week: str
    error: str


class SnapshotMissed(Event, kw_only=True, omit_defaults=True, tag="snapshot_missed"):
    """A day's snapshot is missing until it is made up for; `since` is the first of several days."""

    day: str
    error: str
    since: str = ""

    @property
    def days(self) -> str:
        return day_words(self.since, self.day)

    def each_day(self) -> tuple[str, ...]:
        """Return the days that it is about; they are a month at most."""
        if not self.since:
            return (self.day,)
        last = date.fromisoformat(self.day)
        count = min((last - date.fromisoformat(self.since)).days + 1, MOST_MISSED)
        return tuple((last - timedelta(days=back)).isoformat() for back in reversed(range(count)))


def day_words(since: str, day: str) -> str:
    """Return the days from the first to the last in words."""
    return day if since in {"", day} else f"{since} to {day}"
