"""Send messages with buttons, receive taps, and edit messages of ended requests.

A tap is acknowledged after its answer is durable. Slack waits three seconds for that; then it tells
the user that the tap failed, so its answer is not recorded later.
"""

import logging
from collections.abc import Collection
from functools import partial
from typing import ClassVar, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from safetyd.notify.button_channel import ButtonChannel, Tap
from safetyd.notify.channel import (
    ChannelContext,
    Limits,
    Misconfigured,
    Rate,
    Receipt,
    Unavailable,
    Undeliverable,
)
from safetyd.notify.ended_messages import EndedMessage
from safetyd.notify.message import Notice
from safetyd.notify.slack.channel import is_user
from safetyd.notify.slack.slack_api import Sent, SlackApi
from safetyd.notify.slack.slack_message import SlackMessage, written
from safetyd.notify.slack.slack_socket import Received, SlackSocket

LIMITS: Final = Limits(
    deadline_s=20.0, concurrency=2, rates=(Rate(5, 1.0),), recipient_rates=(Rate(1, 1.0),)
)
HANDLERS: Final = 8  # envelopes that are handled at the same time
MAX_WAITING: Final = 100  # if more envelopes wait, Slack tells users that their tap failed
TAP_S: Final = 3.0
MAX_SEEN: Final = 1000  # taps that are remembered, because Slack may deliver one again

log = logging.getLogger("safetyd.notify")


class Slack(ButtonChannel):
    limits = LIMITS
    service: ClassVar[str] = "slack"

    def __init__(
        self, name: str, api: SlackApi, context: ChannelContext, users: Collection[str] = ()
    ) -> None:
        super().__init__(name, context)
        self._api = api
        self._users = frozenset(users)  # those who may answer in channels
        self._direct: dict[str, str] = {}  # channels of direct messages, by user
        self._seen: dict[str, anyio.Event] = {}  # taps, and whether their answer is durable
        self._socket = SlackSocket(name, api)

    async def send(self, notice: Notice) -> Receipt:
        if self._socket.problem:
            raise Misconfigured(self._socket.problem)
        channel = await self._channel_of(notice.address)
        sent = await self._api.send(channel, self._written(notice, notice.address))
        return Receipt("accepted", sent.provider_id)

    async def edit(self, message: EndedMessage) -> None:
        content = self._written(message.notice, message.notice.address, message.ends)
        await self._api.edit(Sent.parsed(message.provider_id), content)

    def may_answer(self, address: str, tap: Tap) -> bool:
        if is_user(address):
            return address == tap.user
        return address == tap.place and tap.user in self._users

    def knows(self, user: str) -> bool:
        return user in self._users or super().knows(user)

    async def receive(self) -> None:
        queue, received = anyio.create_memory_object_stream[Received](MAX_WAITING)
        with queue, received:
            async with anyio.create_task_group() as tasks:
                for _ in range(HANDLERS):
                    tasks.start_soon(self._handle, received)
                await self._socket.run(partial(self._put, queue))

    def _written(self, notice: Notice, address: str, ends: tuple[str, ...] = ()) -> SlackMessage:
        public = not is_user(address)
        answers = not public or bool(self._users)
        return written(notice, self.data(notice), ends, public=public, answers=answers)

    async def _channel_of(self, address: str) -> str:
        if not is_user(address):
            return address
        if address not in self._direct:
            self._direct[address] = await self._api.direct_channel(address)
        return self._direct[address]

    def _put(self, queue: MemoryObjectSendStream[Received], received: Received) -> None:
        try:
            queue.send_nowait(received)
        except (anyio.WouldBlock, anyio.BrokenResourceError):
            log.warning("%s: too many taps at the same time", self.name)

    async def _handle(self, received: MemoryObjectReceiveStream[Received]) -> None:
        async for envelope, connection in received:
            payload = envelope.payload
            if payload.event.type == "app_home_opened":
                self.visited(payload.event.user)
            action = next((action for action in payload.actions if action.value), None)
            if payload.user is None or action is None:  # an event, or a button with a URL
                await connection.acknowledge(envelope)
                continue
            tap = Tap(payload.user.id, action.value, payload.container.channel_id)
            said = await self._once(tap, action.action_ts or envelope.envelope_id)
            await connection.acknowledge(envelope)
            if said:
                await self._respond(tap, said)

    async def _once(self, tap: Tap, at: str) -> str:
        """Answer a tap. If it was delivered before, wait until its answer is durable."""
        key = f"{tap.user} {at} {tap.data}"
        if key in self._seen:
            await self._seen[key].wait()
            return ""
        if len(self._seen) >= MAX_SEEN:
            del self._seen[next(iter(self._seen))]
        done = self._seen[key] = anyio.Event()
        try:
            return (await self.tapped(tap, TAP_S)).text
        finally:
            done.set()

    async def _respond(self, tap: Tap, text: str) -> None:
        """Show the outcome to the user who tapped."""
        try:
            await self._api.whisper(tap.place, tap.user, text)
        except (Unavailable, Undeliverable, Misconfigured) as exc:
            log.info("%s: cannot confirm a tap to its user: %s", self.name, exc)
