"""Which day's snapshot is due, and how days and weeks are called."""

import re
from datetime import date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

ARCHIVE: Final = ".tar.zst"

_is_day = re.compile(r"\d{4}-\d\d-\d\d").fullmatch
_is_week = re.compile(r"(\d{4})-W(\d\d)").fullmatch


def hour_of(day: date, at: str, zone: str) -> datetime:
    """Return when a day's snapshot is to be taken."""
    return datetime.combine(day, time.fromisoformat(at), ZoneInfo(zone))


def today(now: datetime, zone: str) -> date:
    return now.astimezone(ZoneInfo(zone)).date()


def due_day(now: datetime, at: str, zone: str) -> date:
    """Return the last day whose hour has come."""
    day = today(now, zone)
    return day if now >= hour_of(day, at, zone) else day - timedelta(days=1)


def named_day(name: str) -> date | None:
    """Return the day that a snapshot is of; None if the name is not a snapshot's."""
    if not _is_day(name):
        return None
    try:
        return date.fromisoformat(name)
    except ValueError:
        return None


def week_of(day: date) -> str:
    """Return what the week of a day is called: 2026-W07."""
    year, week, _ = day.isocalendar()
    return f"{year:04d}-W{week:02d}"


def last_day(week: str) -> date | None:
    """Return the Sunday of a week; None if it is not the name of one."""
    found = _is_week(week)
    if not found:
        return None
    try:
        return date.fromisocalendar(int(found[1]), int(found[2]), 7)
    except ValueError:
        return None


def archived_week(name: str) -> str:
    """Return the week that a file is the archive of, or nothing."""
    week = name.removesuffix(ARCHIVE)
    return week if week != name and last_day(week) else ""
