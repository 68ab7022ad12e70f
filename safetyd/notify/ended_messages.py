"""Rewrites a channel's messages when their requests end, on services where messages can change."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

import anyio

from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.notification_events import Told
from safetyd.core.events.request_events import Answered
from safetyd.core.outbox.deliveries import Delivery
from safetyd.core.text.time_words import day_and_clock
from safetyd.journal.mailbox import Unanswered
from safetyd.notify.answers import ended
from safetyd.notify.channel import ChannelContext, Misconfigured, Unavailable, Undeliverable
from safetyd.notify.message import Notice

PAUSES_S: Final = (1.0, 2.0, 5.0, 15.0, 30.0)  # after each failed attempt
MAX_ENDS: Final = 10  # ended requests listed in a message
MAX_QUEUED: Final = 1000  # if there are more, the other messages stay unchanged

log = logging.getLogger("safetyd.notify")


class EndedMessage(NamedTuple):
    """A message with at least one ended request."""

    notice: Notice  # its current content: the pending requests, or all if none is pending
    ends: tuple[str, ...]  # how the others ended
    pending: bool  # True if a request is pending
    answered: bool  # True if the last answer was given through this message
    provider_id: str


class EndedMessages:
    """Queues the messages of one channel, and passes each to `show`, which rewrites it."""

    def __init__(
        self, name: str, context: ChannelContext, show: Callable[[EndedMessage], Awaitable[None]]
    ) -> None:
        self._name = name
        self._context = context
        self._show = show
        # Requests and deliveries, each with the delivery through which it was answered, if any.
        self._queue: dict[str, str] = {}
        self._woken = anyio.Event()

    def observe(self, events: Sequence[Event]) -> None:
        answered = {e.request_id: e.delivery for e in events if isinstance(e, Answered)}
        for request_id, _ in ended(events):
            self.renew(request_id, answered.get(request_id, ""))
        for event in events:
            # A request may have ended before the id of its message was known.
            if isinstance(event, Told) and event.channel == self._name:
                self.renew(event.delivery)

    def renew(self, ref: str, answered: str = "") -> None:
        """Queue a message, or all messages about a request. `answered`: its delivery, if any."""
        if len(self._queue) < MAX_QUEUED:
            self._queue[ref] = answered
            self._woken.set()

    async def run(self) -> None:
        """Rewrite queued messages, forever."""
        while True:
            self._woken = anyio.Event()
            while self._queue:
                ref = next(iter(self._queue))
                found = partial(self._found, ref, self._queue.pop(ref))
                with suppress(Unanswered):
                    for message in await self._context.mailbox.ask(found):
                        await self._rewrite(message)
            await self._woken.wait()

    def _found(
        self, ref: str, answered: str, state: EngineState, moment: Moment
    ) -> list[EndedMessage]:
        named = state.outbox.find(ref)
        deliveries = (named,) if named else state.outbox.told(ref)
        known = {recipient.name for recipient in state.policy.telling.recipients}
        own = (
            each for each in deliveries if each.channel == self._name and each.recipient in known
        )
        found = (self._ended(state, moment, each, answered) for each in own)
        return [message for message in found if message]

    def _ended(
        self, state: EngineState, moment: Moment, delivery: Delivery, answered: str
    ) -> EndedMessage | None:
        requests = (state.approvals.find(item.ref) for item in delivery.items)
        over = [request for request in requests if request and not request.pending]
        if not (over and delivery.provider_id):
            return None
        ended_ids = {request.id for request in over}
        pending = tuple(item for item in delivery.items if item.ref not in ended_ids)
        items = pending or delivery.items
        notice = self._context.composer.notice(state, delivery, items, moment.at)
        ends = [how_it_ended(request, notice) for request in over[:MAX_ENDS]]
        ends += [f"{len(over) - MAX_ENDS} more ended"] if len(over) > MAX_ENDS else []
        return EndedMessage(
            notice=notice,
            ends=tuple(ends),
            pending=bool(pending),
            answered=delivery.id == answered,
            provider_id=delivery.provider_id,
        )

    async def _rewrite(self, message: EndedMessage) -> None:
        for pause_s in PAUSES_S:
            try:
                await self._show(message)
            except Unavailable as exc:
                await anyio.sleep(max(pause_s, exc.retry_after_s or 0.0))
            except (Undeliverable, Misconfigured) as exc:
                # The message was deleted, or already has this content.
                log.info("%s: a message was not edited: %s", self._name, exc)
                return
            else:
                return


def how_it_ended(request: Request, notice: Notice) -> str:
    """Return how a request ended."""
    what = "" if notice.minimal else f": {request.asked.type} by {request.agent}"
    given, state = request.answer, request.state.capitalize()
    if given is None or request.state == "expired":
        return f"{state}{what}"
    at = day_and_clock(given.at.astimezone(notice.at.tzinfo))
    return f"{state} by {given.by} via {given.via}, {at}{what}"
