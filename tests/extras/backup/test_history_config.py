from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.daemon.config import ConfigError, parse
from safetyd.extras.backup.history_config import HistoryConfig, today


def test_no_snapshots_are_taken_unless_somebody_asks_for_them():
    assert parse("", "f").history.snapshot_at == ""


@pytest.mark.parametrize("hour", ["3:30", "24:00", "03:60", "03:30:00", "night"])
def test_an_hour_that_is_none_is_refused_with_an_example(hour: str):
    with pytest.raises(ConfigError) as refused:
        parse(f'[history]\nsnapshot_at = "{hour}"', "f")

    assert refused.value.errors == [
        f'f: history.snapshot_at is "{hour}"; it must be a time such as "03:30", or empty'
    ]


def test_archives_are_kept_at_a_path_from_the_root():
    assert parse('[history]\narchive_dir = "/mnt/far"', "f").history.archive_dir == "/mnt/far"
    with pytest.raises(ConfigError, match="an absolute path, or empty"):
        parse('[history]\narchive_dir = "far"', "f")


BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("now", "due"),
    [("2026-03-10T02:29:59", 9), ("2026-03-10T02:30:00", 10), ("2026-03-10T23:30:00", 10)],
)
def test_a_day_is_due_from_its_hour_in_the_zone_on(now: str, due: int):
    at = datetime.fromisoformat(now).replace(tzinfo=UTC)

    assert HistoryConfig(snapshot_at="03:30").due_day(at, BERLIN) == date(2026, 3, due)


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
    config = HistoryConfig(snapshot_at=at)
    day = config.due_day(now, zone)

    assert config.hour_of(day, zone) <= now < config.hour_of(day + timedelta(days=1), zone)
