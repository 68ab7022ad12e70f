"""Stories of a channel that fails, is left alone for a while, and works again."""

import math

import pytest

from safetyd.notify.delivery.channel_breaker import ChannelBreaker


def test_the_rest_doubles_up_to_ten_minutes_until_the_channel_answers() -> None:
    fuse, now, rests = ChannelBreaker(up=True), 0.0, []
    for _ in range(5):
        fuse.failed(now)

    for _ in range(6):
        rests.append(fuse.free_at() - now)
        now = fuse.free_at()
        fuse.began()
        fuse.failed(now)
    fuse.began()
    fuse.answered(now)
    for _ in range(5):
        fuse.failed(now)

    assert rests == [30.0, 60.0, 120.0, 240.0, 480.0, 600.0]
    assert fuse.free_at() - now == 30.0


@pytest.mark.parametrize(("every_s", "state"), [(1.0, "open"), (7.0, "closed")])
def test_half_of_twenty_within_two_minutes_give_a_rest_too(every_s: float, state: str) -> None:
    fuse = ChannelBreaker(up=True)

    for number in range(10):
        fuse.answered(2 * number * every_s)
        fuse.failed((2 * number + 1) * every_s)

    assert fuse.state == state


def test_old_failures_do_not_count_once_the_channel_is_back() -> None:
    fuse = ChannelBreaker(up=True)
    for number in range(10):
        fuse.answered(number)
        fuse.failed(number)
    fuse.began()
    fuse.answered(40.0)

    fuse.failed(41.0)

    assert fuse.state == "closed"


def test_what_ends_late_opens_nothing_again_and_a_late_success_closes() -> None:
    fuse = ChannelBreaker(up=True)
    for _ in range(5):
        fuse.failed(0.0)

    fuse.failed(20.0)
    free_at = fuse.free_at()
    fuse.answered(21.0)

    assert free_at == 30.0
    assert (fuse.state, fuse.up) == ("closed", True)


def test_only_mending_ends_what_has_to_be_mended() -> None:
    fuse = ChannelBreaker(up=True)
    fuse.mend()
    fuse.park()

    fuse.answered(1.0)
    fuse.failed(2.0)
    parked = fuse.state, fuse.up, fuse.free_at()
    fuse.mend()

    assert parked == ("parked", False, math.inf)
    assert (fuse.state, fuse.free_at()) == ("half_open", -math.inf)
