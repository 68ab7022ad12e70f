"""Missing daily snapshots and missing weekly archives."""

import msgspec

from safetyd.core.actor import Actor, hearing, on
from safetyd.core.events.history_events import (
    ArchiveFailed,
    SnapshotMissed,
    SnapshotTaken,
    WeekArchived,
)


class MissingSnapshots(msgspec.Struct, frozen=True):
    """The first and last day without a snapshot, and the last error."""

    since: str
    day: str
    error: str


class KeptDaysState(msgspec.Struct):
    missing: MissingSnapshots | None = None
    unarchived: str = ""
    taken: str = ""  # the day of the last snapshot


class KeptDays(Actor):
    """Tracks missing snapshots and archives.

    Only the last missing day can still get a snapshot. When it has one, no day counts as missing.
    """

    name = "kept_days"
    _state: KeptDaysState

    def __init__(self) -> None:
        self._state = KeptDaysState()
        self.hears = hearing(
            on(SnapshotMissed, self._missed),
            on(SnapshotTaken, self._taken),
            on(ArchiveFailed, self._not_archived),
            on(WeekArchived, self._archived),
        )

    @property
    def missing(self) -> MissingSnapshots | None:
        return self._state.missing

    @property
    def taken(self) -> str:
        """The day of the last snapshot."""
        return self._state.taken

    @property
    def unarchived(self) -> str:
        """The last week whose archive failed, or an empty string."""
        return self._state.unarchived

    def _missed(self, event: SnapshotMissed) -> None:
        before = self._state.missing
        since = before.since if before else event.since or event.day
        self._state.missing = MissingSnapshots(since, event.day, event.error)

    def _taken(self, event: SnapshotTaken) -> None:
        self._state.taken = event.day
        if self._state.missing is not None and event.day >= self._state.missing.day:
            self._state.missing = None

    def _not_archived(self, event: ArchiveFailed) -> None:
        self._state.unarchived = event.week

    def _archived(self, event: WeekArchived) -> None:
        if self._state.unarchived == event.week:
            self._state.unarchived = ""
