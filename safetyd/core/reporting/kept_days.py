"""Which days have no snapshot and which weeks no archive, though they should."""

import msgspec

from safetyd.core.actor import Actor, hearing, on
from safetyd.core.events.history_events import (
    ArchiveFailed,
    SnapshotMissed,
    SnapshotTaken,
    WeekArchived,
)


class MissingSnapshots(msgspec.Struct, frozen=True):
    """The days from the first to the last that have no snapshot, and why."""

    since: str
    day: str
    error: str


class KeptDaysState(msgspec.Struct):
    missing: MissingSnapshots | None = None
    unarchived: str = ""
    taken: str = ""  # the day of the last snapshot


class KeptDays(Actor):
    """Of the days that are missing only the last can be made up for, and that ends it for all."""

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
        """Return the day of which a snapshot was taken last."""
        return self._state.taken

    @property
    def unarchived(self) -> str:
        """Return the week of which people were told last that it has no archive."""
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
