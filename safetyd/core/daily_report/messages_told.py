"""Which messages reached people, and what nobody could be told."""

from datetime import timedelta
from typing import Final

from safetyd.core.daily_report.day_numbers import DayNumbers, count
from safetyd.core.daily_report.recent_entries import RecentEntries
from safetyd.core.events.notification_events import Due, NotTold, Told

KEPT_FOR: Final = timedelta(days=1)
_LOST: Final = frozenset({"dead", "undelivered", "parked", "expired"})


class MessagesTold:
    """Follows what messages tell of: one thing may go out on several channels, and one is enough.

    What was lost counts as told if another message about it arrives.
    """

    def __init__(self) -> None:
        self._due: RecentEntries[str, tuple[str, ...]] = RecentEntries(KEPT_FOR)
        self._told: RecentEntries[str, bool] = RecentEntries(KEPT_FOR)
        self._lost: RecentEntries[str, bool] = RecentEntries(KEPT_FOR)

    def due(self, event: Due) -> None:
        self._due.put(event.delivery, tuple(item.ref for item in event.items), event.at)

    def arrived(self, event: Told, day: DayNumbers) -> None:
        day.told += 1
        for ref in self._due.find(event.delivery, event.at) or ():
            self._told.put(ref, True, event.at)  # noqa: FBT003 - it is a set that forgets
            if self._lost.pop(ref, event.at):
                count(day.told_after_all, ref)

    def not_told(self, event: NotTold, day: DayNumbers) -> None:
        """Take note of what a message did not tell, unless another did or nobody wanted it."""
        if event.state not in _LOST or event.by:
            return
        for ref in self._due.find(event.delivery, event.at) or ():
            if not self._told.find(ref, event.at):
                self._lost.put(ref, True, event.at)  # noqa: FBT003
                count(day.lost, ref)
