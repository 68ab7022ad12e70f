"""Times and durations in words."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from safetyd.core.text.time_words import (
    about,
    clock,
    complete,
    countdown,
    day,
    day_and_clock,
    duration,
    exact,
    near,
    to_the_second,
)

NOW = datetime(2026, 11, 2, 14, 5, 30, tzinfo=ZoneInfo("Europe/Berlin"))


@pytest.mark.parametrize(
    ("seconds", "rounded", "at_least"),
    [
        (-1, "-1 s", "0 s"),
        (59.4, "59 s", "59 s"),
        (60, "1 min", "1 min"),
        (110, "2 min", "1 min"),
        (7199, "2 h", "1 h"),
        (3599, "1 h", "59 min"),
        (86_400, "24 h", "1 d"),
        (32 * 3600, "32 h", "1 d"),
        (2 * 86_400 - 5, "2 d", "1 d"),
        (2 * 86_400, "2 d", "2 d"),
        (86_400 * 2.9, "3 d", "2 d"),
    ],
)
def test_a_duration_is_in_its_largest_unit(seconds: float, rounded: str, at_least: str) -> None:
    assert duration(seconds) == rounded
    assert complete(seconds) == at_least


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-5, "0s"), (0.9, "0s"), (59, "59s"), (296, "4m 56s"), (3600, "1h"), (3725, "1h 2m 5s")],
)
def test_an_exact_duration_is_to_the_second(seconds: float, said: str) -> None:
    assert exact(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-3, "0:00"), (65.9, "1:05"), (3599.9, "59:59"), (3600, "1 h"), (86_400, "24 h")],
)
def test_the_last_hour_is_counted_down_to_the_second(seconds: float, said: str) -> None:
    assert countdown(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-60, ""),
        (29, ""),
        (60, "~1 minute"),
        (119 * 60, "~119 minutes"),
        (150 * 60, "~2 hours"),
        (48 * 3600, ""),
    ],
)
def test_an_approximate_duration_is_within_two_days(seconds: float, said: str) -> None:
    assert about(seconds) == said


def test_a_time_is_shown_in_its_zone() -> None:
    assert clock(NOW) == "14:05"
    assert day(NOW) == "Mon 2 Nov"
    assert day_and_clock(NOW) == "Mon 2 Nov 14:05 CET"


def test_a_time_to_the_second_names_its_zone() -> None:
    assert to_the_second(NOW) == "2026-11-02 14:05:30 CET"
    assert to_the_second(datetime(2026, 7, 4, 9, 5, tzinfo=UTC)) == "2026-07-04 09:05:00Z"


def test_a_time_has_its_day_unless_it_is_today() -> None:
    assert near(NOW, NOW) == "14:05"
    assert near(NOW + timedelta(days=1), NOW) == "Tue 3 Nov 14:05"
