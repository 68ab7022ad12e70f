"""A channel that does as it is told, a dispatcher that writes down what it hears, and a clock."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Literal, NamedTuple

import anyio
import anyio.lowlevel

from safetyd.cards.note_cards import DigestCard
from safetyd.clock import uptime
from safetyd.core.messages.proposal import Urgency
from safetyd.notify.channel import (
    Channel,
    Limits,
    Misconfigured,
    Receipt,
    Unavailable,
    Undeliverable,
)
from safetyd.notify.compose import NotNow
from safetyd.notify.delivery.channel_worker import ChannelWorker, End
from safetyd.notify.message import Notice
from tests.servers import until

PATIENCE_S = 5.0

Word = Literal["takes", "refuses", "loses", "rejects", "locked", "hangs", "drips", "holds"]


class FakeChannel(Channel):
    """Each try is told one word, or an error to raise; the last one is for all that follow."""

    def __init__(self, *words: Word | BaseException, limits: Limits, name: str = "fake") -> None:
        self.name = name
        self.limits = limits
        self.words: list[Word | BaseException] = list(words or ("takes",))
        self.retry_after_s: float | None = None
        self.released = anyio.Event()  # what it holds
        self.now = uptime
        self.tried: list[Notice] = []
        self.times: list[float] = []  # of tries
        self.arrived: list[Notice] = []
        self.under_way: list[Urgency] = []
        self.closed = False

    async def send(self, notice: Notice) -> Receipt:
        self.tried.append(notice)
        self.times.append(self.now())
        word = self.words.pop(0) if len(self.words) > 1 else self.words[0]
        with self._counted(notice):
            await self._obey(word)
        self.arrived.append(notice)
        return Receipt("accepted", f"number {len(self.arrived)}")

    async def close(self) -> None:
        self.closed = True

    async def until_tried(self, times: int) -> None:
        await until(lambda: len(self.tried) >= times, PATIENCE_S)

    @contextmanager
    def _counted(self, notice: Notice) -> Iterator[None]:
        self.under_way.append(notice.urgency)
        try:
            yield
        finally:
            self.under_way.remove(notice.urgency)

    async def _obey(self, word: Word | BaseException) -> None:
        match word:
            case "takes":
                await anyio.lowlevel.checkpoint()
            case "refuses":
                raise Unavailable("come back later", retry_after_s=self.retry_after_s)
            case "loses":
                raise Unavailable("the connection was lost", ambiguous=True)
            case "rejects":
                raise Undeliverable("no such address")
            case "locked":
                raise Misconfigured("the login was refused")
            case "hangs":
                await anyio.sleep_forever()
            case "drips":
                for _ in range(20):
                    await anyio.sleep(0.005)
            case "holds":
                await self.released.wait()
            case _:
                raise word


class Report(NamedTuple):
    delivery: str
    state: str
    attempts: int
    error: str = ""


class FakeDispatcher:
    """Has a message for every delivery but those that it has another answer for."""

    def __init__(self) -> None:
        self.urgencies: dict[str, Urgency] = {}
        self.answers: dict[str, NotNow | None] = {}
        self.reports: list[Report] = []
        self.moves: list[tuple[bool, str]] = []

    async def compose(self, delivery: str, *, again: bool) -> Notice | NotNow | None:
        await anyio.lowlevel.checkpoint()
        if delivery in self.answers:
            return self.answers[delivery]
        return Notice(
            delivery=delivery,
            channel="fake",
            recipient=delivery,
            urgency=self.urgencies.get(delivery, "normal"),
            card=DigestCard(cards=()),
            again=again,
            at=datetime(2026, 3, 2, tzinfo=UTC),
        )

    def told(
        self, delivery: str, channel: str, receipt: Receipt, attempts: int, took_s: float
    ) -> None:
        assert took_s >= 0.0
        self.reports.append(Report(delivery, receipt.state, attempts))

    def not_told(self, delivery: str, channel: str, end: End, error: str, attempts: int) -> None:
        self.reports.append(Report(delivery, end, attempts, error))

    def moved(self, channel: str, *, up: bool, why: str) -> None:
        self.moves.append((up, why))

    def ends(self) -> list[tuple[str, str]]:
        return [(report.delivery, report.state) for report in self.reports]


class WorkerRound:
    """A worker with a clock that nobody moves but the test, and delays that chance spares."""

    def __init__(self, channel: FakeChannel, *, up: bool = True) -> None:
        self.t = 1_000.0
        self.channel = channel
        self.channel.now = lambda: self.t
        self.dispatcher = FakeDispatcher()
        self.worker = ChannelWorker(
            channel, self.dispatcher, lambda: self.t, up=up, chance=lambda: 0.5
        )

    def put(
        self, *deliveries: str, urgency: Urgency = "normal", to: str = "", again: bool = False
    ) -> None:
        """Put deliveries, each to a recipient of its own if none is named."""
        for delivery in deliveries:
            self.dispatcher.urgencies[delivery] = urgency
            self.worker.put(delivery, urgency, to or delivery, again=again)

    async def rest(self) -> None:
        """Return once all that may be tried now has been."""
        await self.worker.finish(PATIENCE_S)

    async def later(self, seconds: float) -> None:
        """Let what can happen now happen, then time pass, and what it brings happen."""
        await self.rest()
        self.t += seconds
        await self.rest()

    def tried(self) -> list[str]:
        return [notice.delivery for notice in self.channel.tried]


def round_of(*words: Word | BaseException, **limits: object) -> WorkerRound:
    """Return a worker with a channel that is told these words and has these limits."""
    given_limits = {"deadline_s": PATIENCE_S, **limits}
    return WorkerRound(FakeChannel(*words, limits=Limits(**given_limits)))  # type: ignore[arg-type]


@asynccontextmanager
async def at_work(*workers: ChannelWorker) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        for worker in workers:
            tasks.start_soon(worker.run)
        await anyio.lowlevel.checkpoint()
        yield
        tasks.cancel_scope.cancel()
