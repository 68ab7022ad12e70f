"""Make reports on request. Past days never change, so their events are read only once."""

import re
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple, TypeVar

from safetyd.core.daily_report.day_report import DailyReport, ReportScope, report_of_numbers
from safetyd.core.policy import Policy
from safetyd.extras.reports.day_reading import DayReading, Progress, no_progress
from safetyd.journal.audit_reading import Rests
from safetyd.operators.contract.report_contract import ReportAnswer, ReportQuestion
from safetyd.operators.handlers import Handlers, found
from safetyd.operators.replies import CommandRefused

MAX_DAYS: Final = 92

_WORDS: Final = {"": 0, "today": 0, "yesterday": -1}
_is_span = re.compile(r"\d+(?:s|m|min|h)\Z").match


class ReportDays(NamedTuple):
    """The first and the last day of a report, and the current day."""

    since: date
    until: date
    today: date

    @property
    def so_far(self) -> bool:
        """True if the last day is not over."""
        return self.until >= self.today


def days_of(asked: ReportQuestion, today: date) -> ReportDays:
    """Return the days of a query. Raise `CommandRefused` if they are not valid."""
    if asked.date and asked.since:
        raise CommandRefused("invalid", "use `date` for one day or `since` for several, not both")
    since = _day(asked.since or asked.date, today)
    until = today if asked.since else since
    if since > today:
        raise CommandRefused("invalid", f"{since} is in the future: today is {today}")
    if (until - since).days >= MAX_DAYS:
        first = today - timedelta(days=MAX_DAYS - 1)
        raise CommandRefused(
            "invalid", f"since {since} is more than {MAX_DAYS} days ago; use {first} or later"
        )
    return ReportDays(since, until, today)


def _day(said: str, today: date) -> date:
    if said in _WORDS:
        return today + timedelta(days=_WORDS[said])
    try:
        return date.fromisoformat(said)
    except ValueError:
        known = "use a date such as 2026-03-01, today or yesterday"
        if _is_span(said):
            known += f". For a part of a day, run `safetyd decisions --only-events --since {said}`"
        raise CommandRefused("invalid", f"{said!r} is not a day: {known}") from None


KEPT: Final = 32  # cached reports of days that are over
GOING_ON: Final = 4  # cached readings of days that are not over

Value = TypeVar("Value")


class ReportMaker:
    """`today` returns the day in the configured time zone, `written` the last event's number."""

    def __init__(self, audit: Path, today: Callable[[], date], written: Callable[[], int]) -> None:
        self._audit = audit
        self._today = today
        self._written = written
        self._reading = Lock()  # one report at a time
        self._over: dict[ReportDays, DailyReport] = {}
        self._readings: dict[ReportDays, DayReading] = {}  # each continues where it stopped
        self._newest: tuple[ReportDays, int, DailyReport] | None = None
        self.handlers: Handlers = dict([found(ReportQuestion, self.find, self.make)])

    def find(self, asked: ReportQuestion) -> ReportAnswer | None:
        """Return the cached report if it is still current, or None."""
        days = days_of(asked, self._today())
        known = self._over.get(_lasting(days))
        if known is None and self._newest is not None:
            of, seq, newest = self._newest
            known = newest if (of, seq) == (days, self._written()) else None
        return None if known is None else ReportAnswer(ok=True, report=known)

    def make(self, asked: ReportQuestion, rests: Rests) -> ReportAnswer:
        """Read the audit files, in a worker thread."""
        return ReportAnswer(ok=True, report=self.of(days_of(asked, self._today()), rests))

    def of(self, days: ReportDays, rests: Rests) -> DailyReport:
        with self._reading:
            seq, reading = self._written(), self._place(days)
            made = report_of(reading, days, rests)
            self._newest = days, seq, made
            if reading.over and not days.so_far:
                _put(self._over, _lasting(days), made, KEPT)
                self._readings.pop(_lasting(days), None)
            return made

    def _place(self, days: ReportDays) -> DayReading:
        """Return the reader of these days; it continues where it stopped."""
        key = _lasting(days)
        reading = self._readings.pop(key, None) or DayReading(self._audit, days.since, days.until)
        _put(self._readings, key, reading, GOING_ON)
        return reading


def report_of(
    reading: DayReading, days: ReportDays, rests: Rests, progress: Progress = no_progress
) -> DailyReport:
    """Read the audit files and return the report of these days."""
    reading.read(rests, progress)
    fold = reading.fold
    known = [day for day in sorted(fold.policies) if day <= days.until]
    policy = fold.policies[known[-1]] if known else Policy()
    scope = ReportScope(days.since, days.until, policy, days.so_far, reading.broken)
    return report_of_numbers(fold.days, scope)


def _lasting(days: ReportDays) -> ReportDays:
    """Return the cache key of these days, which does not depend on today."""
    return days._replace(today=date.max)


def _put(table: dict[ReportDays, Value], key: ReportDays, value: Value, most: int) -> None:
    """Append to a table; drop its first entry if there are too many."""
    table[key] = value
    if len(table) > most:
        del table[next(iter(table))]
