from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.keeping.snapshot_days import (
    archived_week,
    due_day,
    hour_of,
    last_day,
    named_day,
    today,
    week_of,
)

BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("now", "due"),
    [("2026-03-10T02:29:59", 9), ("2026-03-10T02:30:00", 10), ("2026-03-10T23:30:00", 10)],
)
def test_a_day_is_due_from_its_hour_in_the_zone_on(now: str, due: int):
    at = datetime.fromisoformat(now).replace(tzinfo=UTC)

    assert due_day(at, "03:30", BERLIN) == date(2026, 3, due)


def test_the_day_is_that_of_the_zone():
    late = datetime(2026, 3, 10, 23, 30, tzinfo=UTC)

    assert (today(late, "UTC"), today(late, BERLIN)) == (date(2026, 3, 10), date(2026, 3, 11))


@given(
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31), timezones=st.just(UTC)),  # noqa: DTZ001
    st.sampled_from(["00:00", "02:30", "03:30", "23:59"]),
    st.sampled_from([BERLIN, "UTC", "America/New_York", "Pacific/Apia"]),
)
def test_every_moment_has_one_day_that_is_due_also_where_clocks_change(
    now: datetime, at: str, zone: str
):
    day = due_day(now, at, zone)

    assert hour_of(day, at, zone) <= now < hour_of(day + timedelta(days=1), at, zone)


@pytest.mark.parametrize("name", ["2026-13-01", "2026-02-30", "2026-1-1", ".2026-01-01.new", "x"])
def test_what_is_not_called_after_a_day_is_no_snapshot(name: str):
    assert named_day(name) is None
    assert named_day("2026-02-28") == date(2026, 2, 28)


@given(st.dates(date(2020, 1, 1), date(2040, 12, 31)))
def test_a_week_is_found_by_its_name(day: date):
    sunday = last_day(week_of(day))

    assert sunday is not None
    assert sunday - timedelta(days=6) <= day <= sunday
    assert archived_week(f"{week_of(day)}.tar.zst") == week_of(day)


@pytest.mark.parametrize("name", ["2026-W00", "2026-W54", "2026-W1", "notes"])
def test_what_is_not_called_after_a_week_is_no_archive(name: str):
    assert last_day(name) is None
    assert archived_week(f"{name}.tar.zst") == ""
    assert archived_week("2026-W10.tar.gz") == ""
