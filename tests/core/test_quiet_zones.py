"""Quiet hours in every time zone, around every clock change in three years."""

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from functools import cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import pytest

from safetyd.core.recipients import Day, QuietHours, all_quiet, quiet_until
from tests.tracing import untraced

pytestmark = pytest.mark.large

FROM = datetime(2025, 1, 1, tzinfo=UTC)
STEP = timedelta(days=5)
STEPS = 3 * 366 // 5
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
INSTANT = timedelta(microseconds=1)
DAY = timedelta(days=1)
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

# Every minute near a change, and now and then in the days around it.
NEAR = sorted({*range(-150, 151), *range(-1560, 1561, 47)})


@pytest.fixture(autouse=True)
def unmeasured() -> Iterator[None]:
    """Measure no coverage, which is slow; `test_recipients.py` covers every line."""
    with untraced():
        yield


class Change(NamedTuple):
    """A clock change: the offsets from UTC before and after."""

    at: datetime
    before: timedelta
    after: timedelta


def ahead(at: datetime, zone: str) -> timedelta:
    offset = at.astimezone(ZoneInfo(zone)).utcoffset()
    assert offset is not None
    return offset


def wall(at: datetime, zone: str) -> datetime:
    return at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


@cache
def changes(zone: str) -> tuple[Change, ...]:
    looked_at = (FROM + n * STEP for n in range(STEPS))
    found = ((a, b) for a, b in pairwise(looked_at) if ahead(a, zone) != ahead(b, zone))
    return tuple(change_between(early, late, zone) for early, late in found)


def change_between(early: datetime, late: datetime, zone: str) -> Change:
    before, after = ahead(early, zone), ahead(late, zone)
    while late - early > SECOND:
        middle = early + (late - early) // SECOND // 2 * SECOND
        if ahead(middle, zone) == before:
            early = middle
        else:
            late = middle
    return Change(late, before, after)


def clocks() -> list[str]:
    """Return one zone for each different series of clock changes."""
    alike = {changes(zone): zone for zone in sorted(available_timezones(), reverse=True)}
    return sorted(zone for known, zone in alike.items() if known)


def hours_around(change: Change, zone: str) -> Iterator[QuietHours]:
    """Yield quiet hours that start or end in, at or near skipped or repeated time."""
    low, high = sorted(
        change.at.replace(tzinfo=None) + offset for offset in (change.before, change.after)
    )
    middle, near = low + (high - low) / 2, timedelta(minutes=50)
    inside = middle, middle + 10 * MINUTE
    early, late = low - near, high + near
    day, day_before = DAYS[low.weekday()], DAYS[(low - DAY).weekday()]
    for start, end in (
        (early, middle),
        (middle, late),
        inside,
        inside[::-1],
        (early, low),
        (low, late),
        (early, high),
        (high, late),
        (low, high),
        (high, low),
        (early, late),
        (late, early),
        (middle, early),
        (late, middle),
    ):
        yield QuietHours(start=f"{start:%H:%M}", end=f"{end:%H:%M}", timezone=zone)
    yield QuietHours(timezone=zone)
    yield QuietHours(timezone=zone, days=(day_before,))
    yield QuietHours(start=f"{early:%H:%M}", end=f"{middle:%H:%M}", timezone=zone, days=(day,))


def cases(zone: str) -> Iterator[tuple[Change, QuietHours]]:
    for change in changes(zone):
        for hours in hours_around(change, zone):
            yield change, hours


def between(hours: QuietHours, shown: datetime) -> bool:
    """Return True if a wall clock time is in quiet hours."""
    start, end = time.fromisoformat(hours.start), time.fromisoformat(hours.end)
    begun, ended = start <= shown.time(), end <= shown.time()
    of_yesterday = start > end and not ended
    inside = begun and not ended if start < end else begun or of_yesterday
    night = shown - DAY if of_yesterday else shown
    return inside and (not hours.days or DAYS[night.weekday()] in hours.days)


def test_there_are_zones_and_their_clocks_change() -> None:
    forward = {after - before for zone in clocks() for _, before, after in changes(zone)}

    assert len(available_timezones()) > 400
    assert len(clocks()) > 20
    assert {timedelta(minutes=m) for m in (30, 60, -30, -60)} <= forward


@pytest.mark.req("S3.38")
@pytest.mark.parametrize("zone", clocks())
def test_around_a_clock_change_the_latest_time_shown_so_far_decides(zone: str) -> None:
    for change, hours in cases(zone):
        furthest = datetime.min  # noqa: DTZ901 - what a wall clock shows has no zone
        for minutes in NEAR:
            at = change.at + minutes * MINUTE
            furthest = max(furthest, wall(at, zone))

            quiet = quiet_until(hours, at) is not None

            assert quiet is between(hours, furthest), (hours, at)


@pytest.mark.req("S3.38")
@pytest.mark.parametrize("zone", clocks())
def test_around_a_clock_change_it_is_quiet_until_the_returned_end(zone: str) -> None:
    for change, hours in cases(zone):
        release: datetime | None = None
        for minutes in NEAR:
            at = change.at + minutes * MINUTE
            known = release if release is not None and at < release else None

            release = quiet_until(hours, at)

            assert known in {None, release}, (hours, at)
            if release is not None and known is None:
                assert release > at, (hours, at)
                assert quiet_until(hours, release) is None, (hours, at)
                assert quiet_until(hours, release - INSTANT) == release, (hours, at)


@pytest.mark.req("S3.38")
def test_far_from_clock_changes_the_wall_clock_decides_in_every_zone() -> None:
    nights = ("23:00", "07:00"), ("09:30", "17:45"), ("00:00", "23:59")
    for zone in available_timezones():
        for n in range(0, 3 * 365, 31):
            at = FROM + n * DAY + n * 37 * MINUTE
            if any(abs(at - change.at) < 2 * DAY for change in changes(zone)):
                continue
            for start, end in nights:
                hours = QuietHours(start=start, end=end, timezone=zone, days=DAYS[:5])

                quiet = quiet_until(hours, at) is not None

                assert quiet is between(hours, wall(at, zone)), (hours, at)


@pytest.mark.parametrize("zone", ["America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"])
def test_across_a_clock_change_everybody_is_quiet_in_the_returned_time_and_not_before(
    zone: str,
) -> None:
    day_shift = QuietHours(start="01:30", end="16:00", timezone="Europe/Berlin")
    for change, hours in cases(zone):
        at, before = change.at - 45 * MINUTE, change.at + 1400 * MINUTE
        for everybody in ((hours,), (hours, day_shift)):
            found = all_quiet(everybody, at, before)

            starts, ends = found or (before, before)
            earlier = range(0, (starts - at) // MINUTE, 5)
            assert not any(quiet(everybody, at + n * MINUTE) for n in earlier), everybody
            if found is not None:
                assert at <= starts < min(ends, before), everybody
                assert quiet(everybody, starts), everybody
                assert quiet(everybody, ends - INSTANT), everybody
                assert not quiet(everybody, ends), everybody


def quiet(everybody: tuple[QuietHours, ...], at: datetime) -> bool:
    return all(quiet_until(hours, at) is not None for hours in everybody)
