"""How repeats and the busiest time are measured."""

from datetime import timedelta

import pytest

from safetyd.core.daily_report.message_repeats import HOUR, is_repeat, quantile, worst
from tests.story import at


@pytest.mark.parametrize(
    ("minutes", "urgent", "repeats"),
    [(239, False, True), (240, False, False), (4, True, True), (5, True, False)],
)
def test_the_same_thing_is_a_repeat_for_four_hours_and_if_urgent_for_five_minutes(
    minutes: int, *, urgent: bool, repeats: bool
) -> None:
    assert is_repeat(timedelta(minutes=minutes), urgent=urgent) is repeats
    assert not is_repeat(None, urgent=urgent)


@pytest.mark.parametrize(
    ("minutes", "most"),
    [([], 0), ([5], 1), ([0, 30, 59], 3), ([0, 30, 60], 2), ([0, 1, 100, 101, 102, 300], 3)],
)
def test_the_busiest_hour_may_begin_at_any_minute(minutes: list[int], most: int) -> None:
    assert worst([at(60 * one) for one in minutes], HOUR) == most


def test_a_quantile_is_a_value_that_occurred() -> None:
    assert quantile([], 0.5) is None
    assert [quantile([3.0, 1.0, 2.0, 4.0], share) for share in (0.0, 0.5, 0.95)] == [1.0, 2.0, 4.0]
