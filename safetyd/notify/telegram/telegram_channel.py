"""Send messages with buttons, poll for taps, and edit messages of ended requests.

Telegram stores a tap until it is confirmed, and safetyd confirms it after the answer is durable. If
a restart interrupts this, the tap is received again; if its answer was recorded, nothing changes.
"""

import logging
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final, NamedTuple

import anyio

from safetyd.core.approvals.assurance import Given
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.journal.mailbox import Carried, Plan, Unanswered
from safetyd.notify.address_book import address_of, recipient_at
from safetyd.notify.answers import Outcome, answer
from safetyd.notify.channel import (
    Channel,
    ChannelContext,
    Limits,
    Misconfigured,
    Rate,
    Receipt,
    Unavailable,
    Undeliverable,
)
from safetyd.notify.ended_messages import EndedMessage, EndedMessages
from safetyd.notify.links.sent_links import SentLink
from safetyd.notify.message import Notice
from safetyd.notify.telegram.bot_api import BotApi, CallbackQuery, Conflict, Update
from safetyd.notify.telegram.telegram_message import APPROVE, DENY, TEST, written

LIMITS: Final = Limits(
    deadline_s=10.0, concurrency=2, rates=(Rate(25, 1.0),), recipient_rates=(Rate(1, 1.0),)
)
PAUSES_S: Final = (1.0, 2.0, 5.0, 15.0, 30.0, 60.0)  # after consecutive errors; the last repeats
CONFLICT_S: Final = 60.0  # after a takeover, the previous daemon may still poll for a while
MAX_STRANGERS: Final = 20

SAID: Final[dict[Outcome, str]] = {
    "approved": "Approved.",
    "denied": "Denied.",
    "held": "Approved, but agents are stopped. The agent must propose the action again later.",
    "too_late": "NOT recorded: already answered or expired.",
    "elsewhere": "NOT approved: use a terminal or the page to approve. You can deny it here.",
}
UNKNOWN: Final = "NOT recorded: this button is no longer valid."
STRANGER: Final = "NOT recorded: this message is for another recipient."
NOT_RECORDED: Final = "NOT recorded: safetyd cannot record answers now. Try again in a minute."
WORKS: Final = "It works: safetyd received this tap."

log = logging.getLogger("safetyd.notify")


class Said(NamedTuple):
    """The response to a tap."""

    text: str
    request_id: str = ""  # the answered request, whose messages may need an edit
    stranger: bool = False


class Telegram(Channel):
    limits = LIMITS

    def __init__(self, name: str, api: BotApi, context: ChannelContext) -> None:
        self.name = name
        self._api = api
        self._context = context
        self._strangers: set[int] = set()  # ids of unknown users that were already logged
        self._unread = ""  # the reason why taps cannot be received, if any
        self._ended = EndedMessages(name, context, self._show)

    async def send(self, notice: Notice) -> Receipt:
        if self._unread:
            raise Misconfigured(self._unread)
        content = written(notice, self._data(notice.delivery, notice.recipient))
        silent = notice.urgency == "low"
        sent = await self._api.send(
            chat_id=int(notice.address), disable_notification=silent, **content.fields
        )
        return Receipt("accepted", str(sent.message_id))

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._ended.run)
            await self._poll()

    def observe(self, events: Sequence[Event]) -> None:
        self._ended.observe(events)

    def _data(self, delivery: str, recipient: str) -> Callable[[str, str], str]:
        """Return a function that makes the data of a button: its letter and its token."""

        def data(does: str, ref: str) -> str:
            return does + self._context.signer.token(delivery, f"{does} {ref}", recipient)

        return data

    # -- taps --------------------------------------------------------------------------------------

    async def _poll(self) -> None:
        offset: int | None = None
        while True:
            for update in await self._updates(offset):
                if update.callback_query is not None:
                    await self._tapped(update.callback_query)
                elif update.message is not None and update.message.from_ is not None:
                    self._written(update.message.from_.id)
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

    def _written(self, user: int) -> None:
        """Log the id of an unknown user, so that an operator can add them as a recipient."""
        known = recipient_at(self._context.tables(), self.name, str(user))
        if not known and user not in self._strangers and len(self._strangers) < MAX_STRANGERS:
            self._strangers.add(user)
            log.warning(
                "%s: user %d wrote to the bot but is not a recipient; to add them, set "
                '%s = "%d" in their [[recipients]] table',
                self.name,
                user,
                self.name,
                user,
            )

    async def _tapped(self, tap: CallbackQuery) -> None:
        try:
            said = await self._context.mailbox.carry_out(self._answered(tap))
        except Unanswered:
            said = Said(NOT_RECORDED)
        if said.stranger:
            self.refused += 1
            log.warning("%s: rejected a tap by user %d: not the recipient", self.name, tap.from_.id)
        alert = said.text.startswith("NOT")
        try:
            await self._api.answer(tap.id, said.text, alert=alert)
        except (Unavailable, Undeliverable, Misconfigured) as exc:
            log.info("%s: cannot confirm a tap to its user: %s", self.name, exc)
        if alert and said.request_id:
            self._ended.renew(said.request_id)  # the request's messages may still show buttons

    def _answered(self, tap: CallbackQuery) -> Plan[Said]:
        context, does = self._context, tap.data[:1]

        def plan(state: EngineState, moment: Moment) -> Carried[Said]:
            link = self._link(state, tap.data)
            if not self._is_theirs(link, tap.from_.id):
                return Carried((), Said(STRANGER, stranger=True))
            request = None if link is None else state.approvals.find(link.request_id)
            if link is not None and does == TEST:
                context.used(link.delivery, moment.at)
                return Carried((), Said(WORKS))
            if link is None or request is None or moment.at >= link.expires:
                return Carried((), Said(UNKNOWN))
            given = Given(
                answer="approved" if does == APPROVE else "denied",
                by=link.recipient,
                via=link.via,
                assurance="account",
                delivery=link.delivery,
                peer=f"telegram user {tap.from_.id}",
            )
            done = answer(state, moment, request, given, context.waits)
            return Carried(done.events, Said(SAID[done.answer], request.id))

        return plan

    def _is_theirs(self, link: SentLink | None, user: int) -> bool:
        """Return True if this user is the link's recipient, or without a link, any recipient."""
        tables = self._context.tables()
        if link is None:
            return bool(recipient_at(tables, self.name, str(user)))
        return address_of(tables, link.recipient, self.name) == str(user)

    def _link(self, state: EngineState, data: str) -> SentLink | None:
        """Return the link of a button; None if it is not from safetyd or no longer valid."""
        does, token_id = data[:1], self._context.signer.check(data[1:])
        if token_id is None or does not in {APPROVE, DENY, TEST}:
            return None
        link = self._context.sent_links.find(state.outbox, token_id, f"{does} ")
        return link if link is not None and link.channel == self.name else None

    async def _show(self, message: EndedMessage) -> None:
        """Edit a message whose requests ended."""
        notice = message.notice
        if notice.address:  # the recipient is still configured
            data = self._data(notice.delivery, notice.recipient)
            content = written(notice, data, message.ends)
            await self._api.edit(
                chat_id=int(notice.address),
                message_id=int(message.provider_id),
                **content.fields,
            )
