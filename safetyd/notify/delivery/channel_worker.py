"""Deliver the messages of one channel. Each channel has a worker, so no channel delays another.

A worker retries with backoff and reports the result of each message once. Each attempt has a
deadline, and succeeds or ends with one of a channel's three errors. The worker respects the
channel's limits and sends urgent messages first.
"""

import logging
import math
import random
import re
from collections.abc import Callable
from typing import Final, Literal, NoReturn, Protocol

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec

from safetyd.core.messages.proposal import Urgency
from safetyd.core.text.visible_text import printable_line
from safetyd.notify.channel import Channel, Misconfigured, Receipt, Unavailable, Undeliverable
from safetyd.notify.compose import NotNow
from safetyd.notify.delivery.channel_breaker import ChannelBreaker
from safetyd.notify.delivery.retry_queue import QueuedDelivery, SendTurns, delay_s, spent
from safetyd.notify.message import Notice
from safetyd.operators.contract.notification_contract import ChannelState

ERROR_CHARS: Final = 300
Outcome = Receipt | Unavailable | Undeliverable | Misconfigured

# The scheme is limited to 20 characters, so that long words cause no backtracking.
_after_host = re.compile(r"(\b\w[\w+.-]{0,19}://)(?:[^\s/?#]*@)?([^\s/?#@]*)\S*").sub
daemon_log = logging.getLogger("safetyd")
log = logging.getLogger("safetyd.notify")
SLEEP_S: Final = 30.0  # the longest sleep, to notice that the machine was suspended
End = Literal["dead", "parked", "cancelled", "expired", "quiet"]


async def attempt(channel: Channel, notice: Notice) -> Outcome:
    """Return the receipt, or an error; map unexpected exceptions to `Unavailable`."""
    deadline_s = channel.limits.deadline_s
    try:
        with anyio.fail_after(deadline_s):
            return await channel.send(notice)
    except TimeoutError:
        return Unavailable(f"no answer within {deadline_s:g} s", ambiguous=True)
    except (Unavailable, Undeliverable, Misconfigured) as exc:
        return exc
    except anyio.get_cancelled_exc_class() as exc:
        if anyio.current_effective_deadline() == -math.inf:
            raise
        # Nobody cancelled this attempt: a library leaked its own cancellation.
        return _unexpected(channel, exc)
    except Exception as exc:  # noqa: BLE001 - a library's error must not stop others
        return _unexpected(channel, exc)


def _unexpected(channel: Channel, exc: BaseException) -> Unavailable:
    """Return a temporary error with only the exception's type; its text may contain secrets."""
    kind = type(exc).__name__
    daemon_log.error("channel %s raised %s", channel.name, kind)
    return Unavailable(f"unexpected {kind}", ambiguous=True)


def one_line(error: object) -> str:
    """Return an error as a short line. URLs are cut after the host, because secrets may follow."""
    said = printable_line(str(error)[: 10 * ERROR_CHARS])
    return _after_host(r"\1\2", said)[:ERROR_CHARS]


class Dispatcher(Protocol):
    """Composes messages for workers and receives their results. Only `compose` is async."""

    async def compose(self, delivery: str, *, again: bool) -> Notice | NotNow | None:
        """Return the current message, or why not to send it, or None if the delivery is not open.

        The content of the message is durable. Raise `Undeliverable` if it cannot be composed.
        """
        ...

    def told(
        self, delivery: str, channel: str, receipt: Receipt, attempts: int, took_s: float
    ) -> None:
        """Record that the channel accepted a message."""
        ...

    def not_told(self, delivery: str, channel: str, end: End, error: str, attempts: int) -> None:
        """Record that a message was given up."""
        ...

    def moved(self, channel: str, *, up: bool, why: str) -> None:
        """Record that a channel is down, or up again."""
        ...


class Counts(msgspec.Struct):
    """Counters of a worker."""

    outcomes: dict[str, int] = {}  # deliveries by reported state
    attempts: int = 0
    ambiguous: int = 0
    attempt_s: float = 0.0  # total time of all attempts


class ChannelWorker:
    """Delivers the messages of one channel. `now` returns the monotonic time in seconds.

    `up` is the last reported state: True if the channel accepted messages.

    `chance` returns numbers from 0 to 1 for the jitter of retries.
    """

    def __init__(
        self,
        channel: Channel,
        dispatcher: Dispatcher,
        now: Callable[[], float],
        *,
        up: bool = True,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.counts = Counts()
        self._channel = channel
        self._limits = channel.limits
        self._dispatcher = dispatcher
        self._now = now
        self._chance = chance
        self._up = up
        self._breaker = ChannelBreaker(up=up)
        self._turns = SendTurns(self._limits, self._breaker)
        self._known: dict[str, QueuedDelivery] = {}  # oldest first
        self._number = 0
        self._last_success: float | None = None
        self._last_error = ""
        self._failing = False
        self._running = False
        self._woken = anyio.Event()
        self._rested = anyio.Event()

    def put(self, delivery: str, urgency: Urgency, recipient: str, *, again: bool = False) -> None:
        """Queue a delivery, unless it is already queued."""
        known = self._known.get(delivery)
        if known is not None:
            known.wanted = True
            return
        self._number += 1
        now = self._now()
        queued = QueuedDelivery(
            delivery=delivery,
            recipient=recipient,
            urgent=urgency == "high",
            number=self._number,
            since=now,
            again=again,
            copies=int(again),
        )
        self._known[delivery] = queued
        self._turns.put(queued, now)
        self._woken.set()

    @property
    def unsent(self) -> list[str]:
        """The queued deliveries of which no copy can have arrived."""
        return [queued.delivery for queued in self._known.values() if not queued.again]

    def drop(self, delivery: str) -> None:
        """Remove a delivery from the queue. A running attempt continues."""
        queued = self._known.get(delivery)
        if queued is None:
            return
        if delivery in self._turns.under_way:
            queued.wanted = False
            return
        del self._known[delivery]
        self._turns.drop(queued)

    def replace(self, channel: Channel) -> None:
        """Use a reopened channel from now on."""
        self._channel = channel

    @property
    def failing(self) -> bool:
        """True if the last attempt failed."""
        return self._failing

    def forget_error(self) -> None:
        """Clear the last error, because an operator says the channel is fixed."""
        self._last_error, self._failing = "", False

    def park(self, why: str) -> None:
        """Send nothing until an operator fixes the channel."""
        self._fails(why)
        self._breaker.park()
        self._tell_move()

    def tried(self, delivery: str) -> tuple[int, str]:
        """Return the number of attempts of a delivery, and its last error."""
        queued = self._known.get(delivery)
        return (0, "") if queued is None else (queued.tries, queued.error)

    def recover(self) -> None:
        """Retry all queued messages now. If the channel was down, first send only one."""
        self._breaker.recover()
        self._turns.hurry()
        self._woken.set()

    async def run(self) -> None:
        """Deliver until cancelled. Running attempts then end without a report."""
        self._running = True
        try:
            async with anyio.create_task_group() as tasks:
                await self._deliver(tasks)
        finally:
            self._running = False
            self._rested.set()

    async def finish(self, grace_s: float) -> None:
        """Wait until running and due attempts have ended, at most for the grace period.

        Call it while `run` runs; it does not end `run`.
        """
        self._rested = anyio.Event()
        self._woken.set()
        with anyio.move_on_after(grace_s):
            if self._running:
                await self._rested.wait()

    def state(self) -> ChannelState:
        now = self._now()
        waiting = [
            each.urgent for id_, each in self._known.items() if id_ not in self._turns.under_way
        ]
        oldest = next(iter(self._known.values()), None)
        next_s = self._turns.next_at(now) - now
        return ChannelState(
            name=self._channel.name,
            up=self._up,
            waiting_high=sum(waiting),
            waiting_normal=len(waiting) - sum(waiting),
            under_way=len(self._turns.under_way),
            oldest_s=None if oldest is None else now - oldest.since,
            last_success_s_ago=None if self._last_success is None else now - self._last_success,
            last_error=self._last_error,
            failing=self._failing,
            fuse=self._breaker.state,
            next_try_s=None if math.isinf(next_s) else next_s,
            refused=self._channel.refused,
            reads=self._channel.reads,
        )

    async def _deliver(self, tasks: anyio.abc.TaskGroup) -> NoReturn:
        while True:
            self._woken = anyio.Event()
            while (queued := self._turns.take(self._now())) is not None:
                await self._begin(queued, tasks)
            if not self._turns.under_way:
                self._rested.set()
            await self._sleep()

    async def _sleep(self) -> None:
        """Sleep until a message may be due."""
        now = self._now()
        with anyio.move_on_after(min(SLEEP_S, self._turns.next_at(now) - now)):
            await self._woken.wait()

    async def _begin(self, queued: QueuedDelivery, tasks: anyio.abc.TaskGroup) -> None:
        """Start an attempt, unless the message must not be sent any more."""
        try:
            composed = await self._dispatcher.compose(queued.delivery, again=queued.again)
        except Undeliverable as exc:
            self._turns.ended(queued)
            self._end(queued, "dead", str(exc))
            return
        if not isinstance(composed, Notice):
            self._turns.ended(queued)
            self._end(queued, composed or "cancelled", "")
            return
        queued.tries += 1
        self.counts.attempts += 1
        self._turns.began(queued, self._now())
        tasks.start_soon(self._carry, queued, composed)

    async def _carry(self, queued: QueuedDelivery, notice: Notice) -> None:
        began = self._now()
        again, queued.again = queued.again, True  # if it is cancelled, the message may arrive
        try:
            outcome = await attempt(self._channel, notice)
            queued.again = again
        finally:
            took_s = self._now() - began
            self.counts.attempt_s += took_s
            self._turns.ended(queued)
            self._woken.set()
        self._settle(queued, outcome, took_s)

    def _settle(self, queued: QueuedDelivery, outcome: Outcome, took_s: float) -> None:
        now = self._now()
        if isinstance(outcome, Receipt):
            self._told(queued, outcome, now, took_s)
            return
        self._fails(one_line(outcome))
        queued.error = self._last_error
        match outcome:
            case Unavailable():
                self._breaker.failed(now)
                self._put_back(queued, outcome, now)
            case Undeliverable():
                self._breaker.answered(now)
                self._end(queued, "dead", self._last_error)
            case Misconfigured():
                self._breaker.park()
                self._end(queued, "parked", self._last_error)
        self._tell_move()

    def _fails(self, error: str) -> None:
        if not self._failing:
            log.warning("channel %s failed: %s", self._channel.name, error)
        self._last_error, self._failing = error, True

    def _told(self, queued: QueuedDelivery, receipt: Receipt, now: float, took_s: float) -> None:
        self._last_success, self._failing = now, False
        self._breaker.answered(now)
        self._forget(queued, receipt.state)
        self._dispatcher.told(queued.delivery, self._channel.name, receipt, queued.tries, took_s)
        self._tell_move()

    def _put_back(self, queued: QueuedDelivery, failure: Unavailable, now: float) -> None:
        """Queue a retry, unless the message used up its attempts or was dropped."""
        queued.again |= failure.ambiguous
        queued.copies += failure.ambiguous
        self.counts.ambiguous += failure.ambiguous
        if not queued.wanted:
            self._forget(queued, "cancelled")
        elif spent(queued, failure, self._limits):
            self._end(queued, "dead", self._last_error)
        else:
            wait_s = delay_s(queued, failure, self._limits, self._chance())
            self._turns.put(queued, now + wait_s)

    def _end(self, queued: QueuedDelivery, state: End, error: str) -> None:
        self._forget(queued, state)
        self._dispatcher.not_told(queued.delivery, self._channel.name, state, error, queued.tries)

    def _forget(self, queued: QueuedDelivery, state: str) -> None:
        del self._known[queued.delivery]
        self.counts.outcomes[state] = self.counts.outcomes.get(state, 0) + 1

    def _tell_move(self) -> None:
        if self._breaker.up is not self._up:
            self._up = self._breaker.up
            why = "" if self._up else self._last_error
            self._dispatcher.moved(self._channel.name, up=self._up, why=why)
