"""One channel's trouble is no other's: what hangs, refuses, drips or fails delays only itself."""

import itertools
import statistics
from collections.abc import Sequence

import anyio
import pytest

from safetyd.clock import uptime
from safetyd.notify.channel import Limits
from safetyd.notify.delivery.channel_worker import ChannelWorker
from tests.notify.delivery.fake_channel import FakeChannel, FakeOffice, Word, WorkerRound, at_work
from tests.servers import until

pytestmark = pytest.mark.alone

HASTY = Limits(deadline_s=0.2, concurrency=4, delays_s=(0.01,))
MESSAGES = 100
MANY = 10_000


class Lag:
    """By how much the event loop was late, at worst."""

    def __init__(self) -> None:
        self.worst_s = 0.0

    async def watch(self) -> None:
        while True:
            before = uptime()
            await anyio.sleep(0.002)
            self.worst_s = max(self.worst_s, uptime() - before - 0.002)


async def times_beside(*others: Word | BaseException) -> tuple[list[float], float]:
    """Return the seconds from put to arrival on a healthy channel, and the worst lag."""
    dispatcher, lag = FakeOffice(), Lag()
    healthy = FakeChannel("takes", limits=HASTY)
    channels = [FakeChannel(word, limits=HASTY) for word in others]
    worker = ChannelWorker(healthy, dispatcher, uptime)
    workers = [ChannelWorker(channel, dispatcher, uptime) for channel in channels]
    began: list[float] = []

    async with at_work(worker, *workers), anyio.create_task_group() as tasks:
        tasks.start_soon(lag.watch)
        for number in range(MESSAGES):
            _flood(workers, number)
            began.append(uptime())
            worker.put(f"healthy {number}", "normal", "alice")
            await anyio.sleep(0.01)
        await until(lambda: len(healthy.arrived) == MESSAGES)
        tasks.cancel_scope.cancel()

    assert all(channel.tried for channel in channels)
    return [end - start for start, end in zip(began, healthy.times, strict=True)], lag.worst_s


def _flood(workers: Sequence[ChannelWorker], number: int) -> None:
    for worker, each in itertools.product(workers, range(5)):
        worker.put(f"{number} {each}", "high" if each else "normal", f"recipient {each}")
    for worker in workers:
        worker.mend()  # or they would be left alone soon


async def test_a_healthy_channel_does_not_notice_four_sick_ones() -> None:
    alone, _ = await times_beside("takes", "takes", "takes", "takes")

    beside, lag_s = await times_beside("hangs", "refuses", "drips", RuntimeError("broken"))

    p99, p99_alone = (statistics.quantiles(times, n=100)[-1] for times in (beside, alone))
    print(f"p99 {p99 * 1e3:.1f} ms, all healthy {p99_alone * 1e3:.1f} ms, lag {lag_s * 1e3:.1f} ms")
    assert p99 - p99_alone < 0.1
    assert lag_s < 0.05


def wake_up_us(waiting: int) -> float:
    """Return what it costs to look whose turn it is while none of so many may go."""
    story = WorkerRound(FakeChannel("takes", limits=HASTY))
    story.put(*map(str, range(waiting)))
    story.worker._breaker.park()
    turns = story.worker._turns
    turns.take(story.t)

    began = uptime()
    for _ in range(1_000):
        assert turns.take(story.t) is None
        turns.next_at(story.t)
    return (uptime() - began) * 1e3


def test_waking_up_costs_the_same_with_ten_thousand_that_wait() -> None:
    few = min(wake_up_us(10) for _ in range(5))

    many = min(wake_up_us(MANY) for _ in range(5))

    print(f"a wake-up takes {few:.1f} us with 10 that wait, {many:.1f} us with {MANY}")
    assert many < 3 * few


async def test_ten_thousand_that_have_no_use_any_more_do_not_hold_up_the_loop() -> None:
    story, lag = WorkerRound(FakeChannel("takes", limits=HASTY)), Lag()
    deliveries = [str(number) for number in range(MANY)]
    story.dispatcher.answers = dict.fromkeys(deliveries, "cancelled")
    story.put(*deliveries)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lag.watch)
        async with at_work(story.worker):
            await story.rest()
        tasks.cancel_scope.cancel()

    print(f"lag {lag.worst_s * 1e3:.1f} ms")
    assert len(story.dispatcher.reports) == MANY
    assert lag.worst_s < 0.05
