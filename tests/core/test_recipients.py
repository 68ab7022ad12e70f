"""When quiet hours start and end, of one person and of several."""

from datetime import UTC, datetime, timedelta

import pytest

from safetyd.core.recipients import Day, QuietHours, all_quiet, quiet_from, quiet_until

NEW_YORK = "America/New_York"
LORD_HOWE = "Australia/Lord_Howe"
DAY = timedelta(days=1)


def when(said: str) -> datetime:
    return datetime.fromisoformat(said)


def night(start: str = "23:00", end: str = "07:00", zone: str = NEW_YORK, *days: Day) -> QuietHours:
    return QuietHours(start=start, end=end, timezone=zone, days=days)


LUNCH = night("12:00", "13:30")
FRIDAYS = night("23:00", "07:00", NEW_YORK, "fri")
WEEKENDS = night("10:00", "12:00", NEW_YORK, "sat", "sun")
APIA = "Pacific/Apia"  # Samoa went from the 29th of December 2011 to the 31st
ST_JOHNS = night("00:00", "06:00", "America/St_Johns", "sun")


@pytest.mark.req("S3.38")
@pytest.mark.parametrize(
    ("hours", "at", "ends"),
    [
        # The default is 23:00 to 07:00 in UTC.
        (QuietHours(), "2026-07-01T22:59:59Z", None),
        (QuietHours(), "2026-07-01T23:00:00Z", "2026-07-02T07:00:00Z"),
        (QuietHours(), "2026-07-02T07:00:00Z", None),
        # The start is quiet, the end is not.
        (night(), "2026-07-01T22:59:59.999999-04:00", None),
        (night(), "2026-07-01T23:00:00-04:00", "2026-07-02T07:00:00-04:00"),
        (night(), "2026-07-02T06:59:59.999999-04:00", "2026-07-02T07:00:00-04:00"),
        (night(), "2026-07-02T07:00:00-04:00", None),
        # A start after the end spans midnight; one before the end is of one day.
        (night(), "2026-07-02T00:00:00-04:00", "2026-07-02T07:00:00-04:00"),
        (night(), "2026-07-02T05:00:00Z", "2026-07-02T07:00:00-04:00"),
        (LUNCH, "2026-07-01T11:59:00-04:00", None),
        (LUNCH, "2026-07-01T12:00:00-04:00", "2026-07-01T13:30:00-04:00"),
        (LUNCH, "2026-07-01T13:30:00-04:00", None),
        # Equal ones are never quiet.
        (night("07:00", "07:00"), "2026-07-01T07:00:00-04:00", None),
        (night("07:00", "07:00"), "2026-07-01T23:00:00-04:00", None),
        # The night is an hour shorter when the clock goes forward, and longer when it goes back.
        (night(), "2026-03-07T23:00:00-05:00", "2026-03-08T07:00:00-04:00"),
        (night(), "2026-03-08T07:00:00-04:00", None),
        (night(), "2026-10-31T23:00:00-04:00", "2026-11-01T07:00:00-05:00"),
        (night(), "2026-11-01T01:30:00-05:00", "2026-11-01T07:00:00-05:00"),
        # A time that the clock leaves out is where it goes on.
        (night("23:00", "02:30"), "2026-03-08T01:59:59-05:00", "2026-03-08T03:00:00-04:00"),
        (night("23:00", "02:30"), "2026-03-08T03:00:00-04:00", None),
        (night("02:30", "07:00"), "2026-03-08T01:59:59-05:00", None),
        (night("02:30", "07:00"), "2026-03-08T03:00:00-04:00", "2026-03-08T07:00:00-04:00"),
        # A time that is shown twice is the first one.
        (night("23:00", "01:30"), "2026-11-01T01:29:59-04:00", "2026-11-01T01:30:00-04:00"),
        (night("23:00", "01:30"), "2026-11-01T01:30:00-04:00", None),
        (night("23:00", "01:30"), "2026-11-01T01:00:00-05:00", None),
        (night("23:00", "01:30"), "2026-11-01T01:29:00-05:00", None),
        (night("01:30", "07:00"), "2026-11-01T01:29:59-04:00", None),
        (night("01:30", "07:00"), "2026-11-01T01:30:00-04:00", "2026-11-01T07:00:00-05:00"),
        (night("01:30", "07:00"), "2026-11-01T01:00:00-05:00", "2026-11-01T07:00:00-05:00"),
        # A clock may go forward by half an hour, or by a whole day.
        (
            night("23:00", "02:15", LORD_HOWE),
            "2026-10-04T01:59:59+10:30",
            "2026-10-04T02:30:00+11:00",
        ),
        (night(zone=APIA), "2011-12-29T22:59:00-10:00", None),
        (night(zone=APIA), "2011-12-29T23:00:00-10:00", "2011-12-31T07:00:00+14:00"),
        (
            night("23:00", "07:00", APIA, "thu"),
            "2011-12-29T23:00:00-10:00",
            "2011-12-31T00:00:00+14:00",
        ),
        # Hours that are left out altogether are not quiet; if the waking ones are, nights join.
        (night("02:10", "02:40"), "2026-03-08T01:59:59-05:00", None),
        (night("02:10", "02:40"), "2026-03-08T03:00:00-04:00", None),
        (night("02:10", "02:40"), "2026-03-09T02:10:00-04:00", "2026-03-09T02:40:00-04:00"),
        (night("02:40", "02:10"), "2026-03-07T12:00:00-05:00", "2026-03-09T02:10:00-04:00"),
        # At a minute past midnight it was made a minute past eleven of Saturday: it stays quiet.
        (ST_JOHNS, "2010-11-06T23:59:59-02:30", None),
        (ST_JOHNS, "2010-11-07T00:00:00-02:30", "2010-11-07T06:00:00-03:30"),
        (ST_JOHNS, "2010-11-06T23:01:00-03:30", "2010-11-07T06:00:00-03:30"),
        # A night belongs to the day on which it begins.
        (FRIDAYS, "2026-07-02T23:30:00-04:00", None),
        (FRIDAYS, "2026-07-03T06:30:00-04:00", None),
        (FRIDAYS, "2026-07-03T23:00:00-04:00", "2026-07-04T07:00:00-04:00"),
        (FRIDAYS, "2026-07-04T06:59:00-04:00", "2026-07-04T07:00:00-04:00"),
        (FRIDAYS, "2026-07-04T23:00:00-04:00", None),
        (FRIDAYS, "2026-07-05T06:00:00-04:00", None),
        (WEEKENDS, "2026-07-03T11:00:00-04:00", None),
        (WEEKENDS, "2026-07-04T11:00:00-04:00", "2026-07-04T12:00:00-04:00"),
        (WEEKENDS, "2026-07-05T11:00:00-04:00", "2026-07-05T12:00:00-04:00"),
        (WEEKENDS, "2026-07-06T11:00:00-04:00", None),
    ],
)
def test_quiet_hours_end_when_the_clock_says_so(
    hours: QuietHours, at: str, ends: str | None
) -> None:
    found = quiet_until(hours, when(at))

    assert found == (when(ends) if ends else None)
    assert found is None or found.tzinfo is UTC


@pytest.mark.parametrize(
    ("hours", "at", "starts"),
    [
        (night(), "2026-07-01T12:00:00-04:00", "2026-07-01T23:00:00-04:00"),
        (night(), "2026-07-01T23:00:00-04:00", "2026-07-01T23:00:00-04:00"),
        (night(), "2026-07-02T05:00:00-04:00", "2026-07-02T05:00:00-04:00"),
        (night(), "2026-07-02T07:00:00-04:00", "2026-07-02T23:00:00-04:00"),
        (FRIDAYS, "2026-07-04T07:00:00-04:00", "2026-07-10T23:00:00-04:00"),
        (night("07:00", "07:00"), "2026-07-01T12:00:00-04:00", None),
        # The clock skips these hours, so this Sunday has none.
        (night("02:10", "02:50"), "2026-03-08T00:00:00-05:00", "2026-03-09T02:10:00-04:00"),
    ],
)
def test_quiet_hours_start_when_the_clock_says_so(
    hours: QuietHours, at: str, starts: str | None
) -> None:
    assert quiet_from(hours, when(at)) == (when(starts) if starts else None)


EVENING = night("20:00", "02:00")
BERLIN_NIGHT = night(zone="Europe/Berlin")  # 17:00 to 01:00 in New York


@pytest.mark.parametrize(
    ("everybody", "at", "starts", "ends"),
    [
        ((night(),), "2026-07-01T12:00-04:00", "2026-07-01T23:00-04:00", "2026-07-02T07:00-04:00"),
        # If everybody is quiet already, the rest of it.
        ((night(),), "2026-07-02T03:00-04:00", "2026-07-02T03:00-04:00", "2026-07-02T07:00-04:00"),
        # Of several people, the time that all of them are quiet.
        (
            (night(), EVENING),
            "2026-07-01T12:00-04:00",
            "2026-07-01T23:00-04:00",
            "2026-07-02T02:00-04:00",
        ),
        (
            (night(), EVENING, BERLIN_NIGHT),
            "2026-07-01T12:00-04:00",
            "2026-07-01T23:00-04:00",
            "2026-07-02T01:00-04:00",
        ),
        ((night(), LUNCH), "2026-07-01T12:00-04:00", None, None),
        ((night(), night("07:00", "07:00")), "2026-07-01T23:30-04:00", None, None),
        ((), "2026-07-01T23:30-04:00", None, None),
        # Not within a day.
        ((FRIDAYS,), "2026-07-01T12:00-04:00", None, None),
        # A night is an hour shorter when the clock goes forward.
        ((night(),), "2026-03-07T22:00-05:00", "2026-03-07T23:00-05:00", "2026-03-08T07:00-04:00"),
    ],
)
def test_everybody_is_quiet(
    everybody: tuple[QuietHours, ...], at: str, starts: str | None, ends: str | None
) -> None:
    found = all_quiet(everybody, when(at), when(at) + DAY)

    assert found == (None if starts is None else (when(starts), when(ends or "")))
