"""Send messages with buttons, poll for taps, and edit messages of ended requests.

Telegram stores a tap until it is confirmed, and safetyd confirms it after the answer is durable. If
a restart interrupts this, the tap is received again; if its answer was recorded, nothing changes.
"""

import logging
from itertools import count
from typing import ClassVar, Final

import anyio

from safetyd.notify.button_channel import PAUSES_S, ButtonChannel, Tap
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
from safetyd.notify.telegram.bot_api import BotApi, CallbackQuery, Conflict, Update
from safetyd.notify.telegram.telegram_message import written

LIMITS: Final = Limits(
    deadline_s=10.0, concurrency=2, rates=(Rate(25, 1.0),), recipient_rates=(Rate(1, 1.0),)
)
CONFLICT_S: Final = 60.0  # after a takeover, the previous daemon may still poll for a while

log = logging.getLogger("safetyd.notify")


class Telegram(ButtonChannel):
    limits = LIMITS
    service: ClassVar[str] = "telegram"

    def __init__(self, name: str, api: BotApi, context: ChannelContext) -> None:
        super().__init__(name, context)
        self._api = api
        self._unread = ""  # the reason why taps cannot be received, if any

    async def send(self, notice: Notice) -> Receipt:
        if self._unread:
            raise Misconfigured(self._unread)
        content = written(notice, self.data(notice))
        silent = notice.urgency == "low"
        sent = await self._api.send(
            chat_id=int(notice.address), disable_notification=silent, **content.fields
        )
        return Receipt("accepted", str(sent.message_id))

    async def edit(self, message: EndedMessage) -> None:
        chat, sent = int(message.notice.address), int(message.provider_id)
        content = written(message.notice, self.data(message.notice), message.ends)
        await self._api.edit(chat_id=chat, message_id=sent, **content.fields)

    async def receive(self) -> None:
        offset: int | None = None
        while True:
            for update in await self._updates(offset):
                if update.callback_query is not None:
                    await self._take(update.callback_query)
                elif update.message is not None and update.message.from_ is not None:
                    self.visited(str(update.message.from_.id))
                offset = update.update_id + 1

    async def _updates(self, offset: int | None) -> list[Update]:
        """Return the updates since `offset`; retry until Telegram returns them."""
        began = anyio.current_time()
        for failures in count():
            try:
                updates = await self._api.updates(offset)
            except (Unavailable, Undeliverable, Misconfigured) as exc:
                if not failures:
                    log.warning("%s: cannot receive taps: %s", self.name, exc)
                if isinstance(exc, Conflict) and anyio.current_time() - began > CONFLICT_S:
                    self._unread = f"cannot receive taps: {exc}"
                pause_s = PAUSES_S[min(failures, len(PAUSES_S) - 1)]
                await anyio.sleep(max(pause_s, getattr(exc, "retry_after_s", None) or 0.0))
            else:
                self._unread = ""
                return updates
        raise AssertionError("unreachable: the loop never ends")

    async def _take(self, query: CallbackQuery) -> None:
        said = await self.tapped(Tap(user=str(query.from_.id), data=query.data))
        try:
            await self._api.answer(query.id, said.text, alert=said.refused)
        except (Unavailable, Undeliverable, Misconfigured) as exc:
            log.info("%s: cannot confirm a tap to its user: %s", self.name, exc)
