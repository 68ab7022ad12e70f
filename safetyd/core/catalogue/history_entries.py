"""Commits, rollbacks, snapshots and backups.

Do not change the words of alerts: checkpoints contain them, and older journals must replay alike.
"""

from typing import Final

from safetyd.core.catalogue.entry import MAIL_AND_CHAT, Alert, Entry, Notice
from safetyd.core.events import history_events as events
from safetyd.core.messages.rollback import rollback_command

_WHEN: Final = {"after": "after", "failed": "after failed", "before": "before"}


def _commit_due(event: events.CommitDue) -> str:
    return f"project {event.project} will be committed {_WHEN[event.why]} action {event.id}"


def _in_a_row(event: events.RollbackOffered) -> str:
    return f"{event.errors} actions in a row failed in project {event.project}"


def _not_rolled_back(event: events.RollbackFailed) -> Alert:
    still = f"Still paused: {', '.join(event.agents)}.\n" if event.agents else ""
    left = f"NOT ROLLED BACK: project {event.project} is as errors left it"
    back = rollback_command(event.project, event.commit, event.kind, event.paths)
    return Alert(
        key=f"no rollback {event.project}",
        urgency="high",
        title=f"ROLLBACK NOT FINISHED: project {event.project}" if event.half else left,
        text=f"{event.error}.\n{still}Check the project, then try again: {back}",
    )


ENTRIES: Final = (
    Entry(events.CommitDue, says=_commit_due, follows=True),
    Entry(
        events.Committed,
        says="project {project}: commit {commit}, {files} files, +{added} -{removed}",
    ),
    Entry(
        events.CommitFailed,
        notice=Notice("COMMIT_FAILED", "high", "project {project} was not committed"),
        reason="{error}",
        facts="project id",
        alert=lambda event: Alert(
            key=f"commit {event.project}",
            urgency="normal",
            kinds=MAIL_AND_CHAT,
            title=f"NO HISTORY: project {event.project} was not committed",
            text=f"{event.error}.\nUntil a commit succeeds, changes cannot be rolled back.",
            agent=event.agent,
        ),
    ),
    Entry(
        events.RollbackOffered,
        notice=Notice("ROLLBACK_OFFERED", "medium"),
        reason=_in_a_row,
        facts="project errors commit",
        alert=lambda event: Alert(
            key=f"rollback {event.project} {event.agent}",
            urgency="normal",
            title=f"ERRORS: {event.errors} in a row in project {event.project}",
            text=f"{_in_a_row(event)}.\nTo restore its files from before the errors: "
            f"{rollback_command(event.project, event.commit)}",
            agent=event.agent,
        ),
        follows=True,
    ),
    Entry(
        events.RollbackBegun,
        says="{by} started to roll project {project} back to {commit}: {reason}",
    ),
    Entry(
        events.RollbackCancelled, says="the rollback of project {project} changed nothing: {why}"
    ),
    Entry(
        events.RolledBack,
        notice=Notice("ROLLED_BACK", "medium", "{by} rolled project {project} back to {commit}"),
        facts="project kind commit kept files by made agents",
    ),
    Entry(
        events.RollbackFailed,
        notice=Notice("ROLLBACK_FAILED", "high", "the rollback of project {project} failed"),
        reason="{error}",
        facts="project commit by half agents",
        alert=_not_rolled_back,
    ),
    Entry(events.SnapshotTaken, says="snapshot of {day}: {files} files, {size} bytes"),
    Entry(
        events.SnapshotMissed,
        notice=Notice("SNAPSHOT_MISSING", "high", "snapshot missing"),
        reason="{days}: {error}",
        facts="day",
        alert=lambda event: Alert(
            key="snapshot",
            urgency="normal",
            kinds=MAIL_AND_CHAT,
            title=f"SNAPSHOT MISSING: {event.days}",
            text=f"{event.error}.\nsafetyd retries the last day. Earlier days stay without one.",
        ),
    ),
    Entry(events.BackupMade, says="{by} made a backup up to event {upto}, {size} bytes"),
    Entry(events.WeekArchived, says="week {week} was archived, {size} bytes"),
    Entry(
        events.ArchiveFailed,
        notice=Notice("ARCHIVE_FAILED", "high", "weekly archive failed"),
        reason="{week}: {error}",
        facts="week",
        alert=lambda event: Alert(
            key=f"archive {event.week}",
            urgency="normal",
            kinds=MAIL_AND_CHAT,
            title=f"NOT ARCHIVED: the week {event.week}",
            text=f"{event.error}.\nsafetyd keeps the last snapshot of the week and tries again.",
        ),
    ),
)
