"""When a message is tried again, and how messages wait until then."""

import pytest

from safetyd.notify.channel import Limits, Unavailable
from safetyd.notify.delivery.retry_queue import QueuedDelivery, RetryQueue, delay_s


@pytest.mark.parametrize(
    ("base", "asked", "waits"),
    [
        (5.0, None, (4.0, 6.0)),
        (5.0, 1.0, (5.0, 5.0)),
        (5.0, 7.0, (7.0, 7.0)),
        (5.0, 60.0, (10.0, 10.0)),
        (400.0, 3600.0, (600.0, 600.0)),
        (3600.0, 7200.0, (3600.0, 3600.0)),
    ],
)
def test_a_wish_for_a_later_try_is_heard_within_reason(
    base: float, asked: float | None, waits: tuple[float, float]
) -> None:
    limits = Limits(deadline_s=1.0, delays_s=(base,))
    failure = Unavailable("busy", retry_after_s=asked)
    queued = QueuedDelivery(delivery="a", recipient="a", urgent=False, number=1, since=0.0, tries=1)

    least, most = (delay_s(queued, failure, limits, chance) for chance in (0.0, 1.0))

    assert (least, most) == pytest.approx(waits)


def test_what_nobody_wants_takes_no_room_for_long() -> None:
    queue = RetryQueue()
    kept = QueuedDelivery(delivery="kept", recipient="a", urgent=False, number=0, since=0.0)
    queue.put(kept, 500.0)

    for number in range(1, 1_000):
        queued = QueuedDelivery(delivery="x", recipient="a", urgent=False, number=number, since=0.0)
        queue.put(queued, float(number % 7))
        queue.ripen(float(number % 3))
        queue.drop(queued)

    assert len(queue._later) + len(queue._due[False]) < 200
    assert queue.next_at() == 500.0
    assert queue.first(urgent=False) is None
