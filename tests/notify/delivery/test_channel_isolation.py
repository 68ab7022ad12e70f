"""One channel's trouble is no other's: what hangs, refuses, drips or fails delays only itself."""

import itertools
import statistics
from collections.abc import Callable, Sequence

import anyio
import anyio.lowlevel

from safetyd.clock import uptime
from safetyd.notify.channel import Limits
from safetyd.notify.delivery.channel_worker import ChannelWorker
from tests.cost import ratio
from tests.notify.delivery.fake_channel import (
    FakeChannel,
    FakeDispatcher,
    Word,
    WorkerRound,
    at_work,
)
from tests.servers import until

HASTY = Limits(deadline_s=0.2, concurrency=4, delays_s=(0.01,))
MESSAGES = 100
MANY = 10_000


class Turns:
    """How many messages came to an end in one turn of the event loop, at most."""

    def __init__(self, dispatcher: FakeDispatcher) -> None:
        self.most = 0
        self._ended = dispatcher.reports

    async def watch(self) -> None:
        while True:
            before = len(self._ended)
            await anyio.lowlevel.checkpoint()
            self.most = max(self.most, len(self._ended) - before)


async def times_beside(*others: Word | BaseException) -> tuple[list[float], int]:
    """Return the seconds from put to arrival on a healthy channel, and the most of one turn."""
    turns = Turns(dispatcher := FakeDispatcher())
    healthy = FakeChannel("takes", limits=HASTY)
    channels = [FakeChannel(word, limits=HASTY) for word in others]
    worker = ChannelWorker(healthy, dispatcher, uptime)
    workers = [ChannelWorker(channel, dispatcher, uptime) for channel in channels]
    began: list[float] = []

    async with at_work(worker, *workers), anyio.create_task_group() as tasks:
        tasks.start_soon(turns.watch)
        for number in range(MESSAGES):
            _flood(workers, number)
            began.append(uptime())
            worker.put(f"healthy {number}", "normal", "alice")
            await anyio.sleep(0.01)
        await until(lambda: len(healthy.arrived) == MESSAGES)
        tasks.cancel_scope.cancel()

    assert all(channel.tried for channel in channels)
    return [end - start for start, end in zip(began, healthy.times, strict=True)], turns.most


def _flood(workers: Sequence[ChannelWorker], number: int) -> None:
    for worker, each in itertools.product(workers, range(5)):
        worker.put(f"{number} {each}", "high" if each else "normal", f"recipient {each}")
    for worker in workers:
        worker.recover()  # or they would be left alone soon


async def test_a_healthy_channel_does_not_notice_four_sick_ones() -> None:
    alone, _ = await times_beside("takes", "takes", "takes", "takes")

    beside, most = await times_beside("hangs", "refuses", "drips", RuntimeError("broken"))

    assert statistics.median(beside) < 20 * statistics.median(alone)
    assert most <= 5 * HASTY.concurrency


def wake_up(waiting: int) -> Callable[[], object]:
    """Return the look whose turn it is, while none of so many may go."""
    story = WorkerRound(FakeChannel("takes", limits=HASTY))
    story.put(*map(str, range(waiting)))
    story.worker._breaker.park()
    turns = story.worker._turns
    turns.take(story.t)

    def look() -> None:
        assert turns.take(story.t) is None
        turns.next_at(story.t)

    return look


def test_waking_up_costs_the_same_with_ten_thousand_that_wait() -> None:
    assert ratio(wake_up(MANY), wake_up(10), times=200) < 3


async def test_ten_thousand_that_have_no_use_any_more_do_not_hold_up_the_loop() -> None:
    story = WorkerRound(FakeChannel("takes", limits=HASTY))
    turns = Turns(story.dispatcher)
    deliveries = [str(number) for number in range(MANY)]
    story.dispatcher.answers = dict.fromkeys(deliveries, "cancelled")
    story.put(*deliveries)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(turns.watch)
        async with at_work(story.worker):
            await until(lambda: len(story.dispatcher.reports) == MANY)
        tasks.cancel_scope.cancel()

    assert turns.most <= HASTY.concurrency
