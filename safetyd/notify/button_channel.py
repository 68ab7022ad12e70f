"""A chat channel whose messages have buttons: taps are answers, and ended messages are edited.

An answer is recorded before it is confirmed. A tap counts only if the user's own account made it.
If a tap arrives again, nothing changes.
"""

import logging
import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

import anyio

from safetyd.clock import uptime
from safetyd.core.approvals.assurance import Given
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.journal.mailbox import Carried, Plan, Unanswered
from safetyd.notify.address_book import address_of, recipient_at
from safetyd.notify.answers import Outcome, answer_all
from safetyd.notify.channel import (
    Channel,
    ChannelContext,
)
from safetyd.notify.ended_messages import EndedMessage, EndedMessages
from safetyd.notify.links.sent_links import SentLink
from safetyd.notify.message import Notice
from safetyd.notify.message_buttons import APPROVE, DENY, TEST, Data

PAUSES_S: Final = (1.0, 2.0, 5.0, 15.0, 30.0, 60.0)  # after consecutive errors; the last repeats
MAX_STRANGERS: Final = 20  # unknown users that are logged

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


class Tap(NamedTuple):
    user: str  # the id of the account that tapped
    data: str  # the data of the button
    place: str = ""  # where the message is, if not in the user's own chat


class Said(NamedTuple):
    """The response to a tap."""

    text: str
    request_id: str = ""  # the answered request, whose messages may need an edit
    stranger: bool = False

    @property
    def refused(self) -> bool:
        return self.text.startswith("NOT")


class ButtonChannel(Channel):
    service: ClassVar[str]  # the name of the service, for the record of an answer

    def __init__(self, name: str, context: ChannelContext) -> None:
        self.name = name
        self._context = context
        self._strangers: set[str] = set()  # ids of unknown users that were already logged
        self._ended = EndedMessages(name, context, self._renewed)

    @abstractmethod
    async def receive(self) -> None:
        """Receive taps forever, and pass each to `tapped`."""

    @abstractmethod
    async def edit(self, message: EndedMessage) -> None:
        """Replace the content of a message, or raise one of a channel's three errors."""

    def may_answer(self, address: str, tap: Tap) -> bool:
        """Return True if a tap on a message to this address counts."""
        return address == tap.user

    def knows(self, user: str) -> bool:
        """Return True if this user may answer at least some messages."""
        return bool(recipient_at(self._context.tables(), self.name, user))

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._ended.run)
            await self.receive()

    def observe(self, events: Sequence[Event]) -> None:
        self._ended.observe(events)

    def data(self, notice: Notice) -> Data:
        """Return a function that makes the data of a button: its letter and its token."""
        delivery, recipient = notice.delivery, notice.recipient

        def data(does: str, ref: str) -> str:
            return does + self._context.signer.token(delivery, f"{does} {ref}", recipient)

        return data

    async def tapped(self, tap: Tap, within_s: float = math.inf) -> Said:
        """Record the answer of a tap, and return the response once it is durable.

        An answer that cannot be recorded in time is not recorded later.
        """
        try:
            plan = self._answered(tap, uptime() + within_s)
            said = await self._context.mailbox.carry_out(plan)
        except Unanswered:
            said = Said(NOT_RECORDED)
        if said.stranger:
            self.refused += 1
            if self._is_new(tap.user):
                log.warning("%s: rejected a tap by user %s: not the recipient", self.name, tap.user)
        if said.refused and said.request_id:
            self._ended.renew(said.request_id)  # the request's messages may still show buttons
        return said

    def visited(self, user: str) -> None:
        """Log the id of an unknown user, so that an operator can add them as a recipient."""
        if not self.knows(user) and self._is_new(user):
            log.warning(
                "%s: user %s contacted the bot but is not a recipient; to add them, set "
                '%s = "%s" in their [[recipients]] table',
                self.name,
                user,
                self.name,
                user,
            )

    def _is_new(self, user: str) -> bool:
        """Return True for the first event of an unknown user, unless there were too many users."""
        if user in self._strangers or len(self._strangers) >= MAX_STRANGERS:
            return False
        self._strangers.add(user)
        return True

    def _answered(self, tap: Tap, latest: float) -> Plan[Said]:
        context, does = self._context, tap.data[:1]

        def plan(state: EngineState, moment: Moment) -> Carried[Said]:
            link = self._link(state, tap.data)
            if not self._is_theirs(link, tap):
                return Carried((), Said(STRANGER, stranger=True))
            refs = () if link is None else link.members or (link.request_id,)
            requests = [one for ref in refs if (one := state.approvals.find(ref))]
            if link is not None and does == TEST:
                context.used(link.delivery, moment.at)
                return Carried((), Said(WORKS))
            if link is None or not requests or moment.at >= link.expires:
                return Carried((), Said(UNKNOWN))
            if uptime() > latest:
                return Carried((), Said(NOT_RECORDED))
            given = Given(
                answer="approved" if does == APPROVE else "denied",
                by=self._name_of(link, tap.user),
                via=link.via,
                assurance="account",
                delivery=link.delivery,
                peer=f"{self.service} user {tap.user}",
            )
            done = answer_all(state, moment, requests, given, context.waits)
            return Carried(done.events, Said(SAID[done.answer], requests[0].id))

        return plan

    def _is_theirs(self, link: SentLink | None, tap: Tap) -> bool:
        """Return True if the link is for this user, or without a link, if they are known."""
        if link is None:
            return self.knows(tap.user)
        address = address_of(self._context.tables(), link.recipient, self.name)
        return self.may_answer(address, tap)

    def _name_of(self, link: SentLink, user: str) -> str:
        """Return the name of the recipient who tapped."""
        tables = self._context.tables()
        if address_of(tables, link.recipient, self.name) == user:
            return link.recipient
        return recipient_at(tables, self.name, user) or link.recipient

    def _link(self, state: EngineState, data: str) -> SentLink | None:
        """Return the link of a button; None if it is not from safetyd or no longer valid."""
        does, token_id = data[:1], self._context.signer.check(data[1:])
        if token_id is None or does not in {APPROVE, DENY, TEST}:
            return None
        link = self._context.sent_links.find(state, token_id, f"{does} ")
        return link if link is not None and link.channel == self.name else None

    async def _renewed(self, message: EndedMessage) -> None:
        if message.notice.address:  # the recipient still has an account
            await self.edit(message)
