"""Stories of a channel that fails, is left alone for a while, and works again."""

import math

import pytest

from safetyd.notify.delivery.channel_breaker import ChannelBreaker


def test_the_rest_doubles_up_to_ten_minutes_until_the_channel_answers() -> None:
    breaker, now, rests = ChannelBreaker(up=True), 0.0, []
    for _ in range(5):
        breaker.failed(now)

    for _ in range(6):
        rests.append(breaker.free_at() - now)
        now = breaker.free_at()
        breaker.began()
        breaker.failed(now)
    breaker.began()
    breaker.answered(now)
    for _ in range(5):
        breaker.failed(now)

    assert rests == [30.0, 60.0, 120.0, 240.0, 480.0, 600.0]
    assert breaker.free_at() - now == 30.0


@pytest.mark.parametrize(("every_s", "state"), [(1.0, "open"), (7.0, "closed")])
def test_half_of_twenty_within_two_minutes_give_a_rest_too(every_s: float, state: str) -> None:
    breaker = ChannelBreaker(up=True)

    for number in range(10):
        breaker.answered(2 * number * every_s)
        breaker.failed((2 * number + 1) * every_s)

    assert breaker.state == state


def test_old_failures_do_not_count_once_the_channel_is_back() -> None:
    breaker = ChannelBreaker(up=True)
    for number in range(10):
        breaker.answered(number)
        breaker.failed(number)
    breaker.began()
    breaker.answered(40.0)

    breaker.failed(41.0)

    assert breaker.state == "closed"


def test_what_ends_late_opens_nothing_again_and_a_late_success_closes() -> None:
    breaker = ChannelBreaker(up=True)
    for _ in range(5):
        breaker.failed(0.0)

    breaker.failed(20.0)
    free_at = breaker.free_at()
    breaker.answered(21.0)

    assert free_at == 30.0
    assert (breaker.state, breaker.up) == ("closed", True)


def test_only_mending_ends_what_has_to_be_to_reopen() -> None:
    breaker = ChannelBreaker(up=True)
    breaker.recover()
    breaker.park()

    breaker.answered(1.0)
    breaker.failed(2.0)
    parked = breaker.state, breaker.up, breaker.free_at()
    breaker.recover()

    assert parked == ("parked", False, math.inf)
    assert (breaker.state, breaker.free_at()) == ("half_open", -math.inf)
