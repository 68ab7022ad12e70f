"""What follows a request that nobody answers."""

from datetime import datetime, timedelta
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.messages.proposal import Urgency
from safetyd.core.outbox.escalation import APART, EscalationStep, next_step, steps
from tests.story import at

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
ASKED = at(0)


MORNING = 20 * 60  # minutes after noon


@pytest.mark.parametrize(
    ("urgency", "given", "said"),
    [
        ("low", 2 * HOUR, [60]),
        ("low", None, []),
        ("low", 3 * MINUTE, []),
        ("normal", None, [15, 60, 240, MORNING, MORNING + 1440]),
        ("normal", HOUR, [15, (50, "last_call")]),
        ("normal", 26 * MINUTE, [15]),  # a last call right after a reminder is left out
        ("normal", 20 * MINUTE, [(10, "last_call")]),  # which takes the place of a reminder
        ("normal", 25 * MINUTE, [(15, "last_call")]),
        ("normal", 12 * MINUTE, [(2, "last_call")]),
        ("normal", 10 * MINUTE, []),
        ("high", 6 * MINUTE, []),
        ("high", None, [5, (15, "backup"), (30, "backup"), (60, "backup"), (90, "backup")]),
    ],
)
def test_people_are_reminded_by_urgency_and_by_the_time_that_is_left(
    urgency: Urgency, given: timedelta | None, said: list[object]
) -> None:
    escalation = islice(steps(urgency, ASKED, None if given is None else ASKED + given), 5)

    found = [((s.at - ASKED) / MINUTE, "backup" if s.backup else s.kind) for s in escalation]
    assert found == [each if isinstance(each, tuple) else (each, "reminder") for each in said]


def test_a_last_call_comes_an_hour_before_the_end_of_more_than_a_day() -> None:
    *_, last = steps("normal", ASKED, ASKED + 7 * DAY)

    assert last == EscalationStep(ASKED + 7 * DAY - HOUR, "last_call")


def test_the_first_morning_is_not_right_after_the_last_reminder() -> None:
    late = ASKED + 15 * HOUR  # 03:00
    escalation = list(islice(steps("normal", late, None), 4))

    assert escalation[-1] == EscalationStep(late + 29 * HOUR)


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
