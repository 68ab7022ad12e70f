from datetime import datetime, timedelta

import pytest

from safetyd.console.failure import WrongUsage
from safetyd.console.time_input import until

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
        ("2026-03-05T10:00:00+00:00", datetime.fromisoformat("2026-03-05T10:00:00Z")),
        ("2026-03-05T10:00", wall(5, 10)),
    ],
)
def test_times_are_read_as_people_type_them(said, meant):
    assert until(said, NOON) == meant


@pytest.mark.parametrize("said", ["", "soon", "24:00", "0s", "today 9:00", "2026-03-01T10:00:00Z"])
def test_what_is_no_time_or_over_is_refused(said):
    with pytest.raises(WrongUsage):
        until(said, NOON)
