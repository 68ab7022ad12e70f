"""Answers by reply to a mail: read from a mailbox, checked, recorded and confirmed.

A reply counts only if it names the id of a mail that safetyd sent, comes from the address of that
mail's recipient, is signed by their domain if the server reports signatures, and begins with a word
and a code that this mail shows. The id of a mail contains a mark for each request whose code it
shows; a mail shows a code only with everything that an approval covers.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime, timedelta
from email.message import EmailMessage
from functools import partial
from typing import Final, Literal, NamedTuple, TypeVar

import anyio
import anyio.to_thread

from safetyd.cards.similar_requests import set_ref
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.core.outbox.deliveries import Delivery
from safetyd.journal.mailbox import Carried, Plan, Unanswered
from safetyd.notify.address_book import address_of
from safetyd.notify.button_channel import PAUSES_S
from safetyd.notify.channel import (
    ChannelContext,
    Misconfigured,
    Unavailable,
    Undeliverable,
)
from safetyd.notify.code_replies import Asked, CodeAnswer, CodeReplies, ReplyOutcome, Sender
from safetyd.notify.email.auth_results import dkim_domains, is_aligned
from safetyd.notify.email.channel import EmailConfig
from safetyd.notify.email.imap_folder import FolderMail, ImapFolder
from safetyd.notify.email.mail_addresses import bare, is_same_address
from safetyd.notify.email.reply_mail import ReplyMail, read_reply
from safetyd.notify.links.signing_keys import LINK_TIME
from safetyd.notify.links.wrong_codes import revoked, warned
from safetyd.notify.message_sets import sets_in

CHANNEL: Final = "email"
VIA: Final = f"link:{CHANNEL}"
SEARCHED: Final = LINK_TIME + timedelta(days=2)  # mails that are older are not read
ONCE_IN: Final = timedelta(hours=1)
MAX_LOGGED: Final = 100  # refused mails
MAX_TOLD: Final = 10_000  # requests whose last explanation is remembered

# Why a mail is not an answer and gets no reply.
Refusal = Literal["foreign", "automatic", "sender", "unsigned"]
Outcome = ReplyOutcome | Refusal | Literal["unclear", "repeated", "closed"]

REFUSED: Final[dict[Outcome, str]] = {
    "sender": "it is not from the address of the recipient",
    "unsigned": "the server reports no valid signature of the sender's domain",
    "unknown": "wrong code",
    "ignored": "too many wrong codes came from this address",
}
RECORDED: Final[frozenset[Outcome]] = frozenset({"approved", "denied", "held"})
HOW: Final = (
    'To answer, reply to the mail about the request. Begin with a line such as "approve CODE" or '
    '"deny CODE", with the code from that mail and nothing else in the line.'
)
SAID: Final[dict[Outcome, str]] = {
    "approved": "Approved.",
    "denied": "Denied.",
    "held": "Approved, but agents are stopped. The agent must propose the action again later.",
    "too_late": "NOT recorded: already answered or expired.",
    "elsewhere": "NOT approved: use a terminal or the page to approve. You can deny it by mail.",
    "changed": "NOT approved: some of these requests have ended. Use the link for the others.",
    "unknown": f"NOT recorded: the mail that you replied to does not have this code.\n\n{HOW}",
    "repeated": "Your answer was recorded earlier.",
    "closed": "NOT recorded: that mail cannot be answered by reply. Use its link or a terminal.",
    "unclear": f"NOT recorded: your reply was not understood.\n\n{HOW}",
}

log = logging.getLogger("safetyd.notify")

Result = TypeVar("Result")
Send = Callable[[str, EmailMessage], Awaitable[None]]


class Handled(NamedTuple):
    """What became of a mail."""

    outcome: Outcome
    address: str = ""  # of the recipient
    text: str = ""  # the reply to them, if any
    replied_to: str = ""  # the id of the mail that they replied to


class _Named(NamedTuple):
    """The id of a sent mail, as a reply names it."""

    delivery: Delivery
    marks: frozenset[str]
    id: str


class MailReplies:
    """Reads the mailbox forever. `send` sends a mail to an address.

    `refuse` is called for each mail that pretends to be an answer.
    """

    def __init__(
        self,
        config: EmailConfig,
        password: str,
        context: ChannelContext,
        *,
        send: Send,
        refuse: Callable[[], None],
        report: Callable[[str], None],
    ) -> None:
        self._config = config
        self._password = password
        self._context = context
        self._send = send
        self._refuse = refuse
        self._report = report
        self._replies = CodeReplies("email", "mail", context.signer, context.waits)
        self._told: dict[str, datetime] = {}  # the last explanation, by request
        self._refused = 0
        self._handled = (0, 0)  # the last mail that was handled: UIDVALIDITY and UID
        self._after = (0, 0)

    async def run(self) -> None:
        failures = 0
        while True:
            folder = ImapFolder(self._config, self._password)
            try:
                await _in_thread(folder.open)
                while True:
                    await self._read(folder)
                    failures = 0
                    self._report(f"read from {folder.name}")
                    await anyio.sleep(self._config.imap_poll_seconds)
            except (Unavailable, Misconfigured) as exc:
                if not failures:
                    log.warning("%s: cannot read replies: %s", CHANNEL, exc)
                self._report(f"cannot be read: {exc}")
            finally:
                folder.close()
            await anyio.sleep(PAUSES_S[min(failures, len(PAUSES_S) - 1)])
            failures += 1

    async def _read(self, folder: ImapFolder) -> None:
        """Handle all new mails, oldest first."""
        try:
            now = await self._context.mailbox.ask(lambda _state, moment: moment.at)
        except Unanswered as exc:
            raise Unavailable(str(exc)) from None
        since = (now - SEARCHED).date()
        while True:
            before = self._after[1] if self._after[0] == folder.validity else 0
            found, searched = await _in_thread(partial(folder.unread, before, since))
            for uid in found:
                mail = await _in_thread(partial(folder.fetch, uid))
                if mail is not None:
                    await self._handle(folder, mail)
                self._after = folder.validity, uid
            self._after = folder.validity, searched
            if searched == before:
                return

    async def _handle(self, folder: ImapFolder, mail: FolderMail) -> None:
        """Record what a mail says, mark it as read, and reply. Leave unrelated mails alone."""
        which = folder.validity, mail.uid
        if self._handled == which:  # it could not be marked the last time
            await _in_thread(partial(folder.mark, mail.uid))
            return
        try:
            reply, signed = await anyio.to_thread.run_sync(self._reading, mail)
            plan = self._plan(reply, f"mail {folder.validity}/{mail.uid}", signed=signed)
            handled = await self._context.mailbox.carry_out(plan)
        except Exception as exc:  # noqa: BLE001 - one mail must not stop the others
            # Its text may contain secrets.
            log.error("%s: cannot read mail %d: %s", CHANNEL, mail.uid, type(exc).__name__)  # noqa: TRY400
            return
        if handled.outcome == "foreign":
            return
        self._handled = which
        if handled.outcome in REFUSED:
            self._refuse()
            self._refused += 1
            if self._refused <= MAX_LOGGED:
                log.warning("%s: refused mail %d: %s", CHANNEL, mail.uid, REFUSED[handled.outcome])
        if handled.text:
            await self._confirm(reply, handled)
        await _in_thread(partial(folder.mark, mail.uid))

    def _reading(self, mail: FolderMail) -> tuple[ReplyMail, bool]:
        """Read a mail. Return also whether it is signed as it must be."""
        reply = read_reply(mail.raw, mail.size)
        return reply, self._is_signed(reply)

    def _plan(self, reply: ReplyMail, peer: str, *, signed: bool) -> Plan[Handled]:
        def plan(state: EngineState, moment: Moment) -> Carried[Handled]:
            named = self._named(state, reply.refers_to)
            if named is None or not _asks(state, named.delivery):
                return Carried((), Handled("foreign"))
            delivery = named.delivery
            address = bare(address_of(self._context.tables(), delivery.recipient, CHANNEL)) or ""
            if why := _refusal(reply, address, signed=signed):
                return Carried((), Handled(why))
            events, outcome = self._answered(state, moment, reply, named, peer)
            refs = [item.ref for item in delivery.items]
            quiet = outcome == "ignored" or (
                outcome not in RECORDED and not self._may_tell(refs, moment.at)
            )
            text = "" if quiet else SAID[outcome]
            return Carried(events, Handled(outcome, address, text, named.id))

        return plan

    def _named(self, state: EngineState, refers_to: Sequence[str]) -> _Named | None:
        """Return the sent mail that a reply names; the nearest, if it names several."""
        for id_ in refers_to:
            ref, _, marks = id_.partition("@")[0].partition(".")
            delivery = state.outbox.find(ref)
            if delivery is not None and delivery.channel == CHANNEL:
                return _Named(delivery, frozenset(filter(None, marks.split("."))), id_)
        return None

    def _is_signed(self, reply: ReplyMail) -> bool:
        if not self._config.authserv_id:
            return self._config.trust_unsigned
        domain = reply.sender.rpartition("@")[2]
        signing = dkim_domains(reply.results, self._config.authserv_id)
        return any(is_aligned(domain, each) for each in signing)

    def _answered(
        self, state: EngineState, moment: Moment, reply: ReplyMail, named: _Named, peer: str
    ) -> Carried[Outcome]:
        delivery = named.delivery
        if not named.marks:
            return Carried((), "closed")
        if reply.said is None:
            return Carried((), "unclear")
        if moment.at >= delivery.at + LINK_TIME:
            return Carried((), "too_late")
        asked = list(self._asked(state, named))
        sender = Sender(delivery.recipient, reply.sender.lower())
        events: Sequence[Event]
        outcome: Outcome
        events, outcome = self._replies.taken(
            state, moment, sender, reply.said, asked, via=VIA, peer=peer
        )
        if outcome == "too_late" and any(
            self._replies.names(each, sender, reply.said) and _has(each, sender, reply.said)
            for each in asked
        ):
            outcome = "repeated"  # a restart may have lost the confirmation
        if outcome == "unknown":
            events = (*events, *self._guessed(delivery, asked, moment))
        return Carried(events, outcome)

    def _asked(self, state: EngineState, named: _Named) -> Iterator[Asked]:
        """Yield the requests whose codes a mail shows, unless they were revoked."""
        delivery, marks, _ = named
        signer, code_name = self._context.signer, state.records.link_revocations.code_name
        for item in delivery.items:
            request = state.approvals.find(item.ref)
            if request is None or state.outbox.revoked(delivery.id, item.ref):
                continue
            if signer.mark_ok(delivery.id, item.ref, marks):
                name = code_name(request.id, delivery.recipient, delivery.at)
                yield Asked(
                    request.id,
                    (request,),
                    frozenset({name}),
                    may_approve=True,
                    delivery=delivery.id,
                )
        for found in sets_in(state, delivery):
            shown = [each for each in (found.pending, found.requests) if each]
            marked = [each for each in shown if signer.mark_ok(delivery.id, set_ref(each), marks)]
            if marked and not state.outbox.revoked(delivery.id, found.ref):
                name = code_name(found.ref, delivery.recipient, delivery.at)
                yield Asked(
                    found.ref,
                    marked[0],
                    frozenset({name}),
                    may_approve=True,
                    delivery=delivery.id,
                )

    def _guessed(
        self, delivery: Delivery, asked: Sequence[Asked], moment: Moment
    ) -> Iterator[Event]:
        """Count a wrong code for each request that it could have been for."""
        whose = delivery.recipient
        pending = [each for each in asked if each.pending]
        left = {each.ref: self._context.wrong_codes.left(each.ref, whose) for each in pending}
        for each in (each for each in pending if not left[each.ref]):
            of_set = each.pending if len(each.requests) > 1 else ()
            yield revoked(delivery.id, each.ref, whose, moment)
            yield warned(delivery.id, each.ref, whose, moment, of_set)

    def _may_tell(self, refs: Sequence[str], at: datetime) -> bool:
        """Return True if none of these requests had an explanation in the last hour; note it."""
        if any(ref in self._told and at - self._told[ref] < ONCE_IN for ref in refs):
            return False
        for ref in refs:
            self._told.pop(ref, None)
            self._told[ref] = at
        while len(self._told) > MAX_TOLD:
            del self._told[next(iter(self._told))]
        return True

    async def _confirm(self, reply: ReplyMail, handled: Handled) -> None:
        """Reply to a reply. If that fails, the answer counts anyway."""
        message = EmailMessage()
        subject = reply.subject or "Your answer"
        message["Subject"] = subject if subject.lower().startswith("re:") else f"Re: {subject}"
        if reply.id:
            message["In-Reply-To"] = f"<{reply.id}>"
            message["References"] = f"<{handled.replied_to}> <{reply.id}>"
        message["Auto-Submitted"] = "auto-replied"
        message["X-Auto-Response-Suppress"] = "All"
        message.set_content(f"{handled.text}\n")
        try:
            await self._send(handled.address, message)
        except (Unavailable, Undeliverable, Misconfigured) as exc:
            log.info("%s: cannot confirm a reply to its sender: %s", CHANNEL, exc)


def _refusal(reply: ReplyMail, address: str, *, signed: bool) -> Refusal | None:
    """Return why a reply does not count and gets no reply, or None."""
    if reply.automatic:
        return "automatic"
    if not is_same_address(reply.sender, address):
        return "sender"
    return None if signed else "unsigned"


def _asks(state: EngineState, delivery: Delivery) -> bool:
    """Return True if a mail is about a request."""
    return any(state.approvals.find(item.ref) for item in delivery.items)


def _has(asked: Asked, sender: Sender, said: CodeAnswer) -> bool:
    """Return True if the sender gave this answer before."""
    answered = "approved" if said.approve else "denied"
    return all(
        request.answer is not None
        and request.state == answered
        and (request.answer.by, request.answer.via) == (sender.recipient, VIA)
        for request in asked.requests
    )


async def _in_thread(do: Callable[[], Result]) -> Result:
    return await anyio.to_thread.run_sync(do, abandon_on_cancel=True)
