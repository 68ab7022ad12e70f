"""When it is quiet, until when, and what time is left of a day for people."""

from datetime import UTC, datetime, timedelta

import pytest

from safetyd.core.recipients import MAX_DAYS, Day, QuietHours, awake_until, quiet_until

NEW_YORK = "America/New_York"
LORD_HOWE = "Australia/Lord_Howe"
HOUR_S = 3600.0
DAY_S = 86_400.0


def when(said: str) -> datetime:
    return datetime.fromisoformat(said)


def night(start: str = "23:00", end: str = "07:00", zone: str = NEW_YORK, *days: Day) -> QuietHours:
    return QuietHours(start=start, end=end, timezone=zone, days=days)


def release(hours: QuietHours, at: str) -> datetime:
    ends = quiet_until(hours, when(at))
    assert ends is not None
    return ends


@pytest.mark.req("S3.38")
def test_it_is_quiet_from_eleven_until_seven_unless_somebody_says_otherwise() -> None:
    hours = QuietHours()

    assert quiet_until(hours, when("2026-07-01T22:59:59Z")) is None
    assert release(hours, "2026-07-01T23:00:00Z") == when("2026-07-02T07:00:00Z")
    assert quiet_until(hours, when("2026-07-02T07:00:00Z")) is None


@pytest.mark.req("S3.38")
def test_the_start_is_quiet() -> None:
    assert quiet_until(night(), when("2026-07-01T22:59:59.999999-04:00")) is None
    assert release(night(), "2026-07-01T23:00:00-04:00") == when("2026-07-02T07:00:00-04:00")


@pytest.mark.req("S3.38")
def test_the_end_is_not_quiet() -> None:
    assert release(night(), "2026-07-02T06:59:59.999999-04:00") == when("2026-07-02T07:00-04:00")
    assert quiet_until(night(), when("2026-07-02T07:00:00-04:00")) is None


def test_a_release_is_told_in_utc() -> None:
    assert release(night(), "2026-07-02T01:00:00-04:00").tzinfo is UTC


@pytest.mark.req("S3.38")
@pytest.mark.parametrize(
    "at", ["2026-07-01T23:30:00-04:00", "2026-07-02T00:00:00-04:00", "2026-07-02T03:00:00-04:00"]
)
def test_a_start_after_the_end_spans_midnight(at: str) -> None:
    assert release(night(), at) == when("2026-07-02T07:00:00-04:00")


def test_a_start_before_the_end_is_of_one_day() -> None:
    lunch = night("12:00", "13:30")

    assert release(lunch, "2026-07-01T12:00:00-04:00") == when("2026-07-01T13:30:00-04:00")
    assert quiet_until(lunch, when("2026-07-01T13:30:00-04:00")) is None
    assert quiet_until(lunch, when("2026-07-01T11:59:00-04:00")) is None


def test_a_start_at_the_end_is_never_quiet() -> None:
    never = night("07:00", "07:00")

    assert [quiet_until(never, when(f"2026-07-01T{h:02}:00-04:00")) for h in range(24)] == [
        None
    ] * 24


def test_the_night_in_which_the_clock_goes_forward_is_an_hour_shorter() -> None:
    begins, ends = when("2026-03-07T23:00:00-05:00"), when("2026-03-08T07:00:00-04:00")

    assert quiet_until(night(), begins) == ends
    assert ends - begins == timedelta(hours=7)
    assert quiet_until(night(), ends) is None


def test_the_night_in_which_the_clock_goes_back_is_an_hour_longer() -> None:
    begins, ends = when("2026-10-31T23:00:00-04:00"), when("2026-11-01T07:00:00-05:00")

    assert quiet_until(night(), begins) == ends
    assert ends - begins == timedelta(hours=9)
    assert quiet_until(night(), when("2026-11-01T01:30:00-05:00")) == ends


def test_an_end_that_the_clock_leaves_out_is_where_it_goes_on() -> None:
    hours = night("23:00", "02:30")

    assert release(hours, "2026-03-08T01:59:59-05:00") == when("2026-03-08T03:00:00-04:00")
    assert quiet_until(hours, when("2026-03-08T03:00:00-04:00")) is None


def test_a_start_that_the_clock_leaves_out_is_where_it_goes_on() -> None:
    hours = night("02:30", "07:00")

    assert quiet_until(hours, when("2026-03-08T01:59:59-05:00")) is None
    assert release(hours, "2026-03-08T03:00:00-04:00") == when("2026-03-08T07:00:00-04:00")


def test_an_end_that_is_shown_twice_is_the_first() -> None:
    hours = night("23:00", "01:30")

    assert release(hours, "2026-11-01T01:29:59-04:00") == when("2026-11-01T01:30:00-04:00")
    assert quiet_until(hours, when("2026-11-01T01:30:00-04:00")) is None
    assert quiet_until(hours, when("2026-11-01T01:00:00-05:00")) is None
    assert quiet_until(hours, when("2026-11-01T01:29:00-05:00")) is None


def test_a_start_that_is_shown_twice_is_the_first() -> None:
    hours = night("01:30", "07:00")

    assert quiet_until(hours, when("2026-11-01T01:29:59-04:00")) is None
    assert release(hours, "2026-11-01T01:30:00-04:00") == when("2026-11-01T07:00:00-05:00")
    assert release(hours, "2026-11-01T01:00:00-05:00") == when("2026-11-01T07:00:00-05:00")


def test_a_clock_may_go_forward_by_half_an_hour() -> None:
    hours = night("23:00", "02:15", LORD_HOWE)

    assert release(hours, "2026-10-04T01:59:59+10:30") == when("2026-10-04T02:30:00+11:00")


def test_hours_that_the_clock_leaves_out_altogether_are_not_quiet() -> None:
    hours = night("02:10", "02:40")

    assert quiet_until(hours, when("2026-03-08T01:59:59-05:00")) is None
    assert quiet_until(hours, when("2026-03-08T03:00:00-04:00")) is None
    assert release(hours, "2026-03-09T02:10:00-04:00") == when("2026-03-09T02:40:00-04:00")


def test_one_night_follows_upon_another_if_the_clock_leaves_out_what_is_between() -> None:
    hours = night("02:40", "02:10")

    assert release(hours, "2026-03-07T12:00:00-05:00") == when("2026-03-09T02:10:00-04:00")


def test_a_whole_day_may_be_left_out() -> None:
    hours = night(zone="Pacific/Apia")

    # Samoa went from the 29th of December 2011 to the 31st.
    assert release(hours, "2011-12-29T23:00:00-10:00") == when("2011-12-31T07:00:00+14:00")
    assert quiet_until(hours, when("2011-12-29T22:59:00-10:00")) is None


def test_an_end_on_a_day_that_is_left_out_is_where_the_clock_goes_on() -> None:
    hours = night("23:00", "07:00", "Pacific/Apia", "thu")

    assert release(hours, "2011-12-29T23:00:00-10:00") == when("2011-12-31T00:00:00+14:00")


def test_what_began_stays_quiet_when_the_clock_goes_back_to_the_day_before() -> None:
    hours = night("00:00", "06:00", "America/St_Johns", "sun")

    # At a minute past midnight it was made a minute past eleven of Saturday.
    assert quiet_until(hours, when("2010-11-06T23:59:59-02:30")) is None
    for at in ("2010-11-07T00:00:00-02:30", "2010-11-06T23:01:00-03:30"):
        assert release(hours, at) == when("2010-11-07T06:00:00-03:30")


def test_a_night_belongs_to_the_day_on_which_it_begins() -> None:
    fridays = night("23:00", "07:00", NEW_YORK, "fri")
    thursday, friday, saturday, sunday = (f"2026-07-{day:02}" for day in (2, 3, 4, 5))

    for at in (f"{friday}T23:00", f"{friday}T23:59", f"{saturday}T00:00", f"{saturday}T06:59"):
        assert release(fridays, f"{at}-04:00") == when(f"{saturday}T07:00-04:00")
    for at in (f"{thursday}T23:30", f"{friday}T06:30", f"{saturday}T23:00", f"{sunday}T06:00"):
        assert quiet_until(fridays, when(f"{at}-04:00")) is None


def test_several_days_may_be_named() -> None:
    weekend = night("10:00", "12:00", NEW_YORK, "sat", "sun")
    at_eleven = [f"2026-07-{day:02}T11:00:00-04:00" for day in range(1, 8)]

    quiet = [at[8:10] for at in at_eleven if quiet_until(weekend, when(at))]

    assert quiet == ["04", "05"]


def test_an_instant_is_the_same_in_whatever_zone_it_is_told() -> None:
    at = when("2026-07-02T01:00:00-04:00")

    assert quiet_until(night(), at.astimezone(UTC)) == quiet_until(night(), at)


def test_without_quiet_hours_all_time_counts() -> None:
    at = when("2026-07-01T22:00:00-04:00")

    assert awake_until(night("07:00", "07:00"), at, DAY_S) == at + timedelta(days=1)


@pytest.mark.parametrize(
    ("at", "hours", "until"),
    [
        ("2026-07-01T12:00:00-04:00", 2, "2026-07-01T14:00:00-04:00"),
        ("2026-07-01T22:00:00-04:00", 1, "2026-07-01T23:00:00-04:00"),
        ("2026-07-01T22:00:00-04:00", 2, "2026-07-02T08:00:00-04:00"),
        ("2026-07-01T23:00:00-04:00", 1, "2026-07-02T08:00:00-04:00"),
        ("2026-07-02T03:00:00-04:00", 1, "2026-07-02T08:00:00-04:00"),
        ("2026-07-01T12:00:00-04:00", 16, "2026-07-02T12:00:00-04:00"),
        ("2026-07-01T12:00:00-04:00", 7 * 24, "2026-07-11T20:00:00-04:00"),
        ("2026-03-07T22:00:00-05:00", 2, "2026-03-08T08:00:00-04:00"),
        ("2026-10-31T22:00:00-04:00", 2, "2026-11-01T08:00:00-05:00"),
        ("2026-07-01T12:00:00-04:00", 0, "2026-07-01T12:00:00-04:00"),
    ],
)
def test_quiet_time_does_not_count(at: str, hours: float, until: str) -> None:
    assert awake_until(night(), when(at), hours * HOUR_S) == when(until)


def test_on_days_without_quiet_hours_all_time_counts() -> None:
    fridays = night("23:00", "07:00", NEW_YORK, "fri")

    until = awake_until(fridays, when("2026-07-01T12:00:00-04:00"), 3 * DAY_S)

    assert until == when("2026-07-04T20:00:00-04:00")


def test_time_that_is_almost_always_quiet_ends_all_the_same() -> None:
    hours = night("12:01", "12:00", "UTC")
    at = when("2026-07-01T12:01:00Z")

    until = awake_until(hours, at, 366 * DAY_S)

    # A minute a day counts for three years, and from then on everything.
    assert timedelta(days=MAX_DAYS) < until - at < timedelta(days=MAX_DAYS + 366)
