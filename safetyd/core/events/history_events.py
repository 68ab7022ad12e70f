"""Events of file history, rollbacks, snapshots and backups."""

from datetime import date, timedelta
from typing import Final, Literal

from safetyd.core.events.event import Event
from safetyd.core.messages.rollback import RollbackKind

MOST_MISSED: Final = 30  # maximum number of days that one event reports


class CommitDue(Event, kw_only=True, omit_defaults=True, tag="commit_due"):
    """A project folder must be committed: after an action, or before an irreversible one.

    While other actions are open in the project, each file is committed with the action that names
    it. Files that no action names belong to the only open action that may change any file; if there
    are several (`shared_with`), their author is unknown.
    """

    project: str
    why: Literal["after", "failed", "before"]
    agent: str
    id: str  # The id of the proposal.
    decision: int  # The number of the decision in the journal.
    session: str = ""
    type: str = ""
    description: str = ""
    ticket: str = ""
    approver: str = ""
    paths: tuple[str, ...] = ()  # Only these files and folders; if empty, all but `apart`.
    apart: tuple[str, ...] = ()  # Files and folders that are committed with other actions.
    shared_with: tuple[str, ...] = ()  # Other agents that may have made these changes.


class Committed(Event, kw_only=True, omit_defaults=True, tag="committed"):
    """A project folder was committed.

    `why` says who made the changes: an agent whose action succeeded (`after`) or `failed`, one of
    several agents (`unknown`), or a human, whose changes were found `before` an action. Rollbacks
    are recorded as `RolledBack`.
    """

    project: str
    commit: str  # The new commit; empty if nothing changed since the last one.
    due: int = 0  # The number of the `CommitDue` event; 0 if there was none.
    why: Literal["after", "failed", "before", "rollback", "unknown"]
    agent: str = ""
    session: str = ""
    id: str = ""  # The id of the proposal.
    decision: int = 0  # The number of the decision in the journal.
    files: int = 0
    added: int = 0  # Lines that were added.
    removed: int = 0  # Lines that were removed.
    left_out: tuple[str, ...] = ()  # The first files that were too large, with the reason.
    left_out_files: int = 0  # How many files were too large.
    within: str = ""  # The commit that contains the changes, if several changes share one.


class CommitFailed(Event, kw_only=True, omit_defaults=True, tag="commit_failed"):
    """A commit failed, so the change is not in the file history."""

    project: str
    error: str
    due: int = 0
    agent: str | None = None
    id: str = ""
    # The retry commits changes up to this time, in nanoseconds; 0 means no retry.
    until_ns: int = 0


class RollbackOffered(Event, kw_only=True, tag="rollback_offered"):
    """Several actions in a row failed, so a rollback may help."""

    project: str
    agent: str
    errors: int
    commit: str  # The last commit after a successful action.


class RollbackBegun(Event, kw_only=True, omit_defaults=True, tag="rollback_begun"):
    """A rollback has started. It ends with `RolledBack`, `RollbackCancelled` or `RollbackFailed`.

    A second event, with `kept`, is recorded before the first file changes.
    """

    project: str
    kind: RollbackKind
    commit: str
    by: str
    agents: tuple[str, ...] = ()  # The agents that are paused during the rollback.
    reason: str = ""
    kept: str = ""  # The commit of the files before the rollback, to undo it.
    paths: tuple[str, ...] = ()  # The files and folders that the rollback is limited to.


class RollbackCancelled(Event, kw_only=True, tag="rollback_cancelled"):
    """A rollback changed nothing: it was refused, or there was nothing to restore."""

    project: str
    commit: str
    by: str
    why: str


class RolledBack(Event, kw_only=True, omit_defaults=True, tag="rolled_back"):
    """Files were restored. `kept` is the commit of the state before the rollback."""

    project: str
    kind: RollbackKind
    commit: str
    kept: str
    by: str
    made: str = ""  # The commit that the rollback made; empty in old journals.
    files: int = 0
    agents: tuple[str, ...] = ()  # The agents in the project, paused during the rollback.
    reason: str = ""
    via: str = ""


class RollbackFailed(Event, kw_only=True, omit_defaults=True, tag="rollback_failed"):
    """A rollback failed halfway, or an automatic rollback could not start."""

    project: str
    commit: str
    error: str
    agents: tuple[str, ...] = ()  # Agents that stay paused, because not all files were restored.
    half: bool = False  # True: only some files were restored.
    kind: RollbackKind = "soft"
    by: str = ""
    kept: str = ""  # The commit of the folder before the first file changed.
    paths: tuple[str, ...] = ()  # The files and folders that the rollback was limited to.


class SnapshotTaken(Event, kw_only=True, omit_defaults=True, tag="snapshot_taken"):
    day: str  # The day in the configured time zone, such as 2026-03-01.
    files: int
    size: int  # The size in bytes.
    late: bool = False  # True: taken later than scheduled.


class BackupMade(Event, kw_only=True, omit_defaults=True, tag="backup_made"):
    """A backup was written."""

    by: str
    upto: int  # The number of the last event in the backup.
    size: int  # The size in bytes.
    keys: bool = False  # True: it contains the keys, encrypted.
    history: bool = False  # True: it contains the file history.


class WeekArchived(Event, kw_only=True, tag="week_archived"):
    """The last snapshot of a week was archived."""

    week: str  # The week, such as 2026-W07.
    size: int  # The size in bytes.


class ArchiveFailed(Event, kw_only=True, tag="archive_failed"):
    """A weekly archive failed. It is retried, and the snapshot is retained."""

    week: str
    error: str


class SnapshotMissed(Event, kw_only=True, omit_defaults=True, tag="snapshot_missed"):
    """A daily snapshot is missing. `since` is the first of several days."""

    day: str
    error: str
    since: str = ""

    @property
    def days(self) -> str:
        return day_words(self.since, self.day)

    def each_day(self) -> tuple[str, ...]:
        """Return the missed days, at most the last `MOST_MISSED`."""
        if not self.since:
            return (self.day,)
        last = date.fromisoformat(self.day)
        count = min((last - date.fromisoformat(self.since)).days + 1, MOST_MISSED)
        return tuple((last - timedelta(days=back)).isoformat() for back in reversed(range(count)))


def day_words(since: str, day: str) -> str:
    """Format a range of days."""
    return day if since in {"", day} else f"{since} to {day}"
