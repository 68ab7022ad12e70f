"""What follows a request that nobody answers."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.outbox.escalation import APART, EscalationStep, next_step, steps
from tests.story import at

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
ASKED = at(0)


def minutes(escalation: Iterator[EscalationStep], most: int = 20) -> list[float]:
    return [(step.at - ASKED) / MINUTE for step in islice(escalation, most)]


def test_of_what_is_low_people_are_reminded_at_half_the_time() -> None:
    escalation = list(steps("low", ASKED, ASKED + 2 * HOUR))

    assert escalation == [EscalationStep(ASKED + HOUR)]


def test_of_what_is_low_and_has_no_end_nobody_is_reminded() -> None:
    assert list(steps("low", ASKED, None)) == []


def test_of_what_is_low_and_short_nobody_is_reminded() -> None:
    assert list(steps("low", ASKED, ASKED + 3 * MINUTE)) == []


def test_reminders_come_ever_more_seldom_and_then_every_morning() -> None:
    escalation = steps("normal", ASKED, None)

    morning = 20 * 60  # after noon
    assert minutes(escalation, 5) == [15, 60, 240, morning, morning + 1440]


def test_the_first_morning_is_not_right_after_the_last_reminder() -> None:
    late = ASKED + 15 * HOUR  # 03:00
    escalation = list(islice(steps("normal", late, None), 4))

    assert escalation[-1] == EscalationStep(late + 29 * HOUR)


def test_a_last_call_comes_ten_minutes_before_the_end() -> None:
    escalation = list(steps("normal", ASKED, ASKED + HOUR))

    assert escalation == [
        EscalationStep(ASKED + 15 * MINUTE),
        EscalationStep(ASKED + 50 * MINUTE, "last_call"),
    ]


def test_a_last_call_comes_an_hour_before_the_end_of_more_than_a_day() -> None:
    *_, last = steps("normal", ASKED, ASKED + 7 * DAY)

    assert last == EscalationStep(ASKED + 7 * DAY - HOUR, "last_call")


def test_a_last_call_right_after_a_reminder_is_left_out() -> None:
    escalation = steps("normal", ASKED, ASKED + 26 * MINUTE)

    assert minutes(escalation) == [15]


def test_a_last_call_takes_the_place_of_a_reminder_that_would_follow() -> None:
    escalation = list(steps("normal", ASKED, ASKED + 20 * MINUTE))

    assert escalation == [EscalationStep(ASKED + 10 * MINUTE, "last_call")]


def test_there_is_no_step_where_there_is_no_time() -> None:
    assert list(steps("normal", ASKED, ASKED + 10 * MINUTE)) == []
    assert list(steps("high", ASKED, ASKED + 6 * MINUTE)) == []


def test_of_what_is_urgent_the_backup_is_told_after_a_quarter_of_an_hour() -> None:
    escalation = list(steps("high", ASKED, None))

    assert minutes(iter(escalation)) == [5, 15, 30, 60, 90]
    assert [step.backup for step in escalation] == [False, True, True, True, True]


def test_steps_that_were_missed_are_not_made_up_for() -> None:
    step = next_step("normal", ASKED, None, ASKED + 30 * HOUR)

    assert step == EscalationStep(ASKED + 20 * HOUR + DAY)


@pytest.mark.parametrize("urgency", ["low", "normal", "high"])
@given(given_s=st.none() | st.integers(1, 40 * 86_400))
def test_no_two_things_are_said_within_two_minutes(urgency, given_s: int | None) -> None:
    deadline = None if given_s is None else ASKED + timedelta(seconds=given_s)

    said: list[datetime] = [ASKED, *(s.at for s in islice(steps(urgency, ASKED, deadline), 60))]

    assert all(later - sooner >= APART for sooner, later in pairwise(said))
    assert deadline is None or all(one <= deadline - APART for one in said[1:])
