"""Deliver messages with a worker for each channel, and record the results as events.

A message is handed to its worker once it is durable, and its result is journaled. After a restart
or a reload, every message without a result is handed over again.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import anyio

from safetyd.clock import Clock
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.notification_events import ChannelMoved, Due, NotTold, Told
from safetyd.core.outbox.deliveries import Delivery
from safetyd.journal.mailbox import (
    Carried,
    CommandEnvelope,
    EventEnvelope,
    Mailbox,
    Make,
    Unanswered,
)
from safetyd.notify.channel import BrokenChannel, Channel, Receipt, Undeliverable
from safetyd.notify.compose import Composer, NotNow
from safetyd.notify.delivery.channel_worker import ChannelWorker, End
from safetyd.notify.message import Notice
from safetyd.operators.contract.notification_contract import ChannelState

CLOSE_S: Final = 2.0
RESTART_S: Final = 30.0  # the pause after an error that a channel should have caught

log = logging.getLogger("safetyd.notify")

OpenChannels = Callable[[Iterable[str] | None], Awaitable[Mapping[str, Channel]]]


class _Unreported(NamedTuple):
    """Deliveries without a result, and the channels last reported as down."""

    down: tuple[str, ...]
    deliveries: tuple[Delivery, ...]


def _unreported(state: EngineState, _moment: Moment) -> Carried[_Unreported]:
    return Carried((), _Unreported(state.outbox.down, tuple(state.outbox.open())))


class Dispatch:
    """Runs the workers, composes their messages and journals their results."""

    def __init__(
        self,
        mailbox: Mailbox,
        clock: Clock,
        composer: Composer,
        open_channels: OpenChannels,
    ) -> None:
        self._mailbox = mailbox
        self._clock = clock
        self._composer = composer
        self._open_channels = open_channels
        self._channels: dict[str, Channel] = {}
        self._to_reopen: set[str] = set()  # names of channels
        self._workers: dict[str, ChannelWorker] = {}
        self._serving: dict[str, anyio.CancelScope] = {}
        self._early: set[str] = set()  # became due before their channel was open
        self._changed = anyio.Event()
        self._reopening = anyio.Event()

    async def run(self) -> None:
        """Deliver forever; restart with the configured channels after `renew`."""
        while True:
            self._changed = anyio.Event()
            self._channels = dict(await self._open_channels(None))
            try:
                await self._deliver()
            finally:
                await _close(self._channels.values())

    async def _deliver(self) -> None:
        """Deliver messages without a result and messages that become due, until `renew`."""
        begun = anyio.Event()

        def begin(found: _Unreported) -> None:
            unsent = {id_ for worker in self._workers.values() for id_ in worker.unsent}
            unsent |= self._early
            self._early.clear()
            self._workers = {
                name: ChannelWorker(channel, self, self._t, up=name not in found.down)
                for name, channel in self._channels.items()
            }
            for delivery in found.deliveries:
                self._hand_over(delivery.id, delivery, again=delivery.id not in unsent)
            begun.set()

        # `begin` creates the workers. Messages that become due later are handed to them.
        self._mailbox.put(CommandEnvelope(_unreported, begin, begun.set))
        await begun.wait()
        async with anyio.create_task_group() as tasks:
            for name, worker in self._workers.items():
                tasks.start_soon(worker.run)
                tasks.start_soon(self._serve, name)
                if isinstance(channel := self._channels[name], BrokenChannel):
                    worker.park(channel.why)
            tasks.start_soon(self._reopen_channels)
            await self._changed.wait()
            tasks.cancel_scope.cancel()

    async def _serve(self, name: str) -> None:
        """Run a channel's own task, and that of a channel that replaces it."""
        while True:
            with anyio.CancelScope() as self._serving[name]:
                try:
                    await self._channels[name].run()
                    await anyio.sleep_forever()
                except Exception as exc:  # noqa: BLE001 - a channel's error ends no other part
                    # Its text may contain secrets.
                    log.error("channel %s raised %s", name, type(exc).__name__)  # noqa: TRY400
                    await anyio.sleep(RESTART_S)

    async def _reopen_channels(self) -> None:
        """Reopen channels that an operator asked to retry."""
        while True:
            self._reopening = anyio.Event()
            names, self._to_reopen = self._to_reopen, set()
            for name, channel in (await self._open_channels(names)).items() if names else ():
                before, self._channels[name] = self._channels[name], channel
                self._serving[name].cancel()
                await _close([before])
                worker = self._workers[name]
                worker.replace(channel)
                worker.recover()
            await self._reopening.wait()

    def renew(self) -> None:
        """Restart with the channels as configured now."""
        self._changed.set()

    def observe(self, events: Sequence[Event]) -> None:
        """Hand over due messages; called with durable events."""
        for event in events:
            if type(event) is Due:
                self._hand_over(event.delivery, event)
        for name, channel in self._channels.items():
            try:
                channel.observe(events)
            except Exception:  # an error in one channel must not affect the others
                log.exception("channel %s could not observe events", name)

    def shown(self, delivery: str) -> None:
        """Record that a desktop helper shows a message."""
        for channel in self._channels.values():
            channel.shown(delivery)

    def retry(self, deliveries: Sequence[Delivery]) -> None:
        """Retry deliveries that were stopped by an error of their channel."""
        self.recover({delivery.channel for delivery in deliveries})
        for delivery in deliveries:
            self._hand_over(delivery.id, delivery)

    def recover(self, channels: set[str]) -> None:
        """Let channels retry their queued messages without further delay.

        A failing channel is reopened first, because its secrets may have been fixed.
        """
        for name in channels & self._workers.keys():
            worker = self._workers[name]
            if worker.failing:
                worker.forget_error()
                self._to_reopen.add(name)
                self._reopening.set()
            else:
                worker.recover()

    def drop(self, delivery: Delivery) -> None:
        if worker := self._workers.get(delivery.channel):
            worker.drop(delivery.id)

    def tried(self, delivery: Delivery) -> tuple[int, str]:
        """Return the number of attempts of a queued message, and its last error."""
        worker = self._workers.get(delivery.channel)
        return (0, "") if worker is None else worker.tried(delivery.id)

    def states(self) -> list[ChannelState]:
        return [worker.state() for worker in self._workers.values()]

    async def finish(self, grace_s: float) -> None:
        """Wait for running attempts, and send due messages once, within the grace period."""
        async with anyio.create_task_group() as tasks:
            for worker in self._workers.values():
                tasks.start_soon(worker.finish, grace_s)

    async def compose(self, delivery: str, *, again: bool) -> Notice | NotNow | None:
        def ask(state: EngineState, moment: Moment) -> Notice | NotNow | None:
            return self._composer.compose(state, delivery, moment.at, again=again)

        try:
            return await self._mailbox.ask(ask)
        except Unanswered:  # an error in one message must not stop the others
            raise Undeliverable("the message cannot be composed; see the log") from None

    def told(
        self, delivery: str, channel: str, receipt: Receipt, attempts: int, took_s: float
    ) -> None:
        def made(_state: EngineState, moment: Moment) -> Told:
            return Told(
                at=moment.at,
                t=moment.t,
                delivery=delivery,
                channel=channel,
                state=receipt.state,
                provider_id=receipt.provider_id,
                attempts=attempts,
                took_s=round(took_s, 3),
            )

        self._report(made)

    def not_told(self, delivery: str, channel: str, end: End, error: str, attempts: int) -> None:
        def made(state: EngineState, moment: Moment) -> NotTold | None:
            found = state.outbox.find(delivery)
            if found is None or not found.under_way:
                return None  # it was dropped, or its result was already reported
            return NotTold(
                at=moment.at,
                t=moment.t,
                delivery=delivery,
                channel=channel,
                state=end,
                error=error,
                attempts=attempts,
            )

        self._report(made)

    def moved(self, channel: str, *, up: bool, why: str) -> None:
        def made(_state: EngineState, moment: Moment) -> ChannelMoved:
            return ChannelMoved(at=moment.at, t=moment.t, channel=channel, up=up, why=why)

        self._report(made)

    def _t(self) -> float:
        return self._clock.now().t

    def _hand_over(self, delivery: str, due: Due | Delivery, *, again: bool = False) -> None:
        # If there is no worker yet, the message is handed over when its channel opens.
        if worker := self._workers.get(due.channel):
            worker.put(delivery, due.urgency, due.recipient, again=again)
        elif not again:
            self._early.add(delivery)

    def _report(self, make: Make) -> None:
        self._mailbox.put(EventEnvelope(make, _nothing))


async def _close(channels: Iterable[Channel]) -> None:
    for channel in channels:
        with anyio.move_on_after(CLOSE_S, shield=True):
            await channel.close()


def _nothing() -> None:
    pass
