from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from safetyd.console.render import layout


@pytest.mark.parametrize(
    ("zone", "shown"),
    [
        ("UTC", "2026-02-08 22:30:22Z"),
        ("Europe/Berlin", "2026-02-08 23:30:22 CET"),
        ("Asia/Kathmandu", "2026-02-09 04:15:22 +0545"),
        ("America/New_York", "2026-02-08 17:30:22 EST"),
        ("CET-1", "2026-02-08 23:30:22 CET"),
    ],
)
def test_times_are_in_the_zone_of_whoever_reads_them(
    live_in: Callable[[str], None], zone: str, shown: str
):
    live_in(zone)

    assert layout.when("2026-02-08T22:30:22.5Z") == shown


@pytest.mark.parametrize("odd", ["", "soon", "0001-01-01T00:00:00+00:00"])
def test_what_is_no_time_here_is_shown_as_it_came(live_in: Callable[[str], None], odd: str):
    live_in("America/New_York")

    assert layout.when(odd) == odd


def test_times_before_and_after_a_change_of_the_clocks_are_told_apart(
    live_in: Callable[[str], None],
):
    live_in("Europe/Berlin")

    early, late = (layout.when(f"2026-10-25T0{hour}:30:00Z") for hour in (0, 1))

    assert (early, late) == ("2026-10-25 02:30:00 CEST", "2026-10-25 02:30:00 CET")


def test_the_day_of_budgets_ends_with_that_of_utc(live_in: Callable[[str], None]):
    live_in("America/New_York")

    # It is the 8th there still, and the 9th in UTC.
    assert layout.day_end(datetime(2026, 2, 9, 2, tzinfo=UTC)) == "2026-02-09 19:00:00 EST"
