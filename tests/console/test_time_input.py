from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from safetyd.console.failure import WrongUsage
from safetyd.console.time_input import since, until

NOON = datetime(2026, 3, 1, 12, 0, 30).astimezone()


def wall(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 3, day, hour, minute).astimezone()


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("90s", NOON + timedelta(seconds=90)),
        ("30 min", NOON + timedelta(minutes=30)),
        ("2H", NOON + timedelta(hours=2)),
        ("3d", NOON + timedelta(days=3)),
        ("13:15", wall(1, 13, 15)),
        ("9:00", wall(2, 9)),
        ("today 18:00", wall(1, 18)),
        ("Tomorrow 9:00", wall(2, 9)),
        ("tomorrow", wall(2, 0)),
        ("2026-03-05T10:00:00+00:00", datetime.fromisoformat("2026-03-05T10:00:00Z")),
        ("2026-03-05T10:00", wall(5, 10)),
    ],
)
def test_times_are_read_as_people_type_them(said, meant):
    assert until(said, NOON) == meant


@pytest.mark.parametrize(
    "said", ["", "soon", "24:00", "0s", "today", "today 9:00", "2026-03-01T10:00:00Z"]
)
def test_what_is_no_time_or_over_is_refused(said):
    with pytest.raises(WrongUsage):
        until(said, NOON)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("90s", NOON - timedelta(seconds=90)),
        ("2 H", NOON - timedelta(hours=2)),
        ("9:00", wall(1, 9)),
        ("13:15", datetime(2026, 2, 28, 13, 15).astimezone()),
        ("today 9:00", wall(1, 9)),
        ("yesterday", datetime(2026, 2, 28).astimezone()),
        ("Today", wall(1, 0)),
        ("Yesterday 9:00", datetime(2026, 2, 28, 9).astimezone()),
        ("2026-02-27T10:00:00+00:00", datetime.fromisoformat("2026-02-27T10:00:00Z")),
        ("2026-02-27 10:00", datetime(2026, 2, 27, 10).astimezone()),
        ("2026-02-27", datetime(2026, 2, 27).astimezone()),
    ],
)
def test_times_that_are_over_are_read_the_other_way_round(said, meant):
    assert since(said, NOON) == meant


@pytest.mark.parametrize("said", ["", "lately", "24:00", "today 18:00", "tomorrow 9:00"])
def test_what_is_no_time_or_yet_to_come_is_refused(said):
    with pytest.raises(WrongUsage):
        since(said, NOON)


# On 25 October 2026 Berlin puts its clocks back at 3:00, New York a week later.
@pytest.mark.parametrize(
    ("zone", "said", "meant"),
    [
        ("Europe/Berlin", "tomorrow 9:00", datetime(2026, 10, 25, 8, tzinfo=UTC)),
        ("America/New_York", "tomorrow 9:00", datetime(2026, 10, 25, 13, tzinfo=UTC)),
        ("Europe/Berlin", "2026-10-25 12:00", datetime(2026, 10, 25, 11, tzinfo=UTC)),
        ("Asia/Kathmandu", "0:30", datetime(2026, 10, 24, 18, 45, tzinfo=UTC)),
    ],
)
def test_a_time_without_a_zone_is_the_one_of_the_clock_of_who_types_it(
    live_in: Callable[[str], None], zone, said, meant
):
    live_in(zone)

    assert until(said, datetime(2026, 10, 24, 12, tzinfo=UTC)) == meant


def test_yesterday_is_the_day_before_on_the_clock_of_who_types_it(live_in: Callable[[str], None]):
    live_in("Europe/Berlin")

    # It is Monday there already, and Sunday had an hour more.
    at = since("yesterday 1:00", datetime(2026, 10, 25, 23, 30, tzinfo=UTC))

    assert at == datetime(2026, 10, 24, 23, tzinfo=UTC)
