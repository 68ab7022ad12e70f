"""What follows a request that nobody answers."""

from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.messages.proposal import Urgency
from safetyd.core.outbox.escalation import APART, EscalationStep, Unanswered, next_step, steps
from tests.story import at

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
ASKED = at(0)


def unanswered(
    urgency: Urgency, given: timedelta | None, *waits: timedelta, pressing: bool = True
) -> Unanswered:
    return Unanswered(urgency, ASKED, None if given is None else ASKED + given, waits, pressing)


@pytest.mark.parametrize(
    ("urgency", "given", "waits", "said"),
    [
        # What can wait is reminded of in rounds, so that only its end is said.
        ("low", None, [], []),
        ("normal", None, [], []),
        ("normal", 4 * HOUR, [], []),
        ("normal", 5 * HOUR, [], [(240, "last_call")]),
        ("low", DAY, [], [(23 * 60, "last_call")]),
        ("normal", 7 * DAY, [], [(7 * 1440 - 60, "last_call")]),
        # Next channels follow at their times, but not right before the deadline.
        ("normal", None, [240 * MINUTE], [(240, "next")]),
        ("normal", 6 * HOUR, [240 * MINUTE], [(240, "next"), (300, "last_call")]),
        ("normal", 241 * MINUTE, [240 * MINUTE], []),
        ("high", None, [], [(15, "backup"), (60, "backup")]),
        ("high", None, [5 * MINUTE], [(5, "next"), (15, "backup"), (60, "backup")]),
        ("high", None, [10 * MINUTE, 20 * MINUTE], [(10, "next"), (20, "next"), (60, "backup")]),
        ("high", None, [5 * MINUTE, 6 * MINUTE], [(5, "next"), (15, "backup"), (60, "backup")]),
        ("high", 20 * MINUTE, [5 * MINUTE], [(5, "next"), (15, "backup")]),
        ("high", 6 * MINUTE, [5 * MINUTE], []),
    ],
)
def test_what_follows_depends_on_the_urgency_and_the_time_that_is_left(
    urgency: Urgency, given: timedelta | None, waits: list[timedelta], said: list[object]
) -> None:
    found = [
        (
            (step.at - ASKED) / MINUTE,
            "next" if step.next_channel else "backup" if step.backup else step.kind,
        )
        for step in steps(unanswered(urgency, given, *waits))
    ]

    assert found == said


def test_nobody_is_reminded_of_an_urgency_that_presses_nobody() -> None:
    calm = unanswered("high", DAY, 5 * MINUTE, pressing=False)

    assert list(steps(calm)) == [
        EscalationStep(ASKED + 5 * MINUTE, next_channel=True),
        EscalationStep(ASKED + 23 * HOUR, "last_call"),
    ]


def test_steps_that_were_missed_are_not_made_up_for() -> None:
    request = unanswered("high", None, 5 * MINUTE)

    assert next_step(request, ASKED + 20 * MINUTE) == EscalationStep(ASKED + HOUR, backup=True)
    assert next_step(request, ASKED + HOUR) is None


@pytest.mark.parametrize("urgency", ["low", "normal", "high"])
@given(
    given_s=st.none() | st.integers(1, 40 * 86_400),
    waits_s=st.lists(st.integers(1, 20_000), max_size=3).map(sorted),
    pressing=st.booleans(),
)
def test_no_two_things_are_said_within_two_minutes(
    urgency: Urgency, given_s: int | None, waits_s: list[int], *, pressing: bool
) -> None:
    waits = [timedelta(seconds=each) for each in waits_s]
    left = None if given_s is None else timedelta(seconds=given_s)
    request = unanswered(urgency, left, *waits, pressing=pressing)

    said: list[datetime] = [ASKED, *(step.at for step in steps(request))]

    assert len(said) <= 1 + len(waits) + 2
    assert all(later - sooner >= APART for sooner, later in pairwise(said))
    assert left is None or all(one <= ASKED + left - APART for one in said[1:])
