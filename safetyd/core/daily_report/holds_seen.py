"""Stops and safe modes: how many began, the last of them, and what still stops somebody."""

from datetime import datetime, timedelta
from typing import Final

from safetyd.core.daily_report.day_numbers import DayNumbers, Hold, LastHolds, count
from safetyd.core.daily_report.recent_entries import RecentEntries
from safetyd.core.events.guard_events import Resumed, SafeModeEntered, Stopped

KEPT_FOR: Final = timedelta(days=7)  # what began longer ago is not known to hold
ONE_STOP: Final = timedelta(minutes=1)  # a command and the file that it writes both make one
REASON_CHARS: Final = 120


class HoldsSeen:
    """`shown` is the time of an event by the clock on the wall."""

    def __init__(self) -> None:
        self._begun: RecentEntries[str | None, bool] = RecentEntries(ONE_STOP)
        self._holding: RecentEntries[tuple[str | None, str], bool] = RecentEntries(KEPT_FOR)

    def stopped(self, event: Stopped, shown: datetime, day: DayNumbers) -> None:
        if not self._begun.find(event.agent, event.at):
            day.stops += 1
            day.last_stops += last_hold(shown, event.by, event.reason, event.agent)
        source = event.agent, event.source
        if not self._holding.find(source, event.at):
            count(day.stopped, event.agent or "")
        self._begun.put(event.agent, True, event.at)  # noqa: FBT003 - it is a set that forgets
        self._holding.put(source, True, event.at)  # noqa: FBT003

    def resumed(self, event: Resumed, day: DayNumbers) -> None:
        self._begun.pop(event.agent, event.at)
        for source in event.sources:
            if self._holding.pop((event.agent, source), event.at):
                count(day.stopped, event.agent or "", -1)

    def safe_mode(self, event: SafeModeEntered, shown: datetime, day: DayNumbers) -> None:
        day.safe_modes += 1
        day.last_safe_modes += last_hold(shown, event.by, event.reason, event.agent)


def last_hold(shown: datetime, by: str, reason: str, whom: str | None) -> LastHolds:
    """Return one as the last of several, with the beginning of its reason."""
    reason = " ".join(reason.split())
    if len(reason) > REASON_CHARS:
        reason = f"{reason[:REASON_CHARS]}…"
    return LastHolds((Hold(shown, by, reason, whom or ""),))
