"""The days that a question about a report means."""

from datetime import date, timedelta
from typing import Final, NamedTuple

from safetyd.operators.contract.report_contract import ReportQuestion
from safetyd.operators.replies import CommandRefused

MAX_DAYS: Final = 92

_WORDS: Final = {"": 0, "today": 0, "yesterday": -1}


class ReportDays(NamedTuple):
    """The first and the last day of a report, and which day it is now."""

    since: date
    until: date
    today: date

    @property
    def so_far(self) -> bool:
        """Whether the last day is not over."""
        return self.until >= self.today


def days_of(asked: ReportQuestion, today: date) -> ReportDays:
    """Return the days that are meant; raises `CommandRefused` for what is none."""
    if asked.date and asked.since:
        raise CommandRefused("invalid", "give `date` for one day or `since` for several, not both")
    since = _day(asked.since or asked.date, today)
    until = today if asked.since else since
    if since > today:
        raise CommandRefused("invalid", f"{since} is not there yet: today is {today}")
    if (until - since).days >= MAX_DAYS:
        first = today - timedelta(days=MAX_DAYS - 1)
        raise CommandRefused(
            "invalid", f"since {since} is more than {MAX_DAYS} days; give {first} or later"
        )
    return ReportDays(since, until, today)


def _day(said: str, today: date) -> date:
    if said in _WORDS:
        return today + timedelta(days=_WORDS[said])
    try:
        return date.fromisoformat(said)
    except ValueError:
        known = "give it as 2026-03-01, today or yesterday"
        raise CommandRefused("invalid", f"{said!r} is no day: {known}") from None
