"""Webhooks that Twilio calls: SMS replies and delivery reports.

Only requests signed by Twilio for the configured URL are accepted, and only recipients' numbers get
a reply. An answer is a letter and the code from the message.
"""

import secrets
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import anyio
from aiohttp import web

from safetyd.core.approvals.assurance import Given, risk_within
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.notification_events import Announced, Note
from safetyd.core.outbox.deliveries import Delivery
from safetyd.journal.mailbox import Carried, Plan, Unanswered
from safetyd.notify.address_book import recipient_at
from safetyd.notify.answers import answer_all
from safetyd.notify.channel import CarryOut, ChannelContext, Hook, Misconfigured
from safetyd.notify.message_sets import sets_in
from safetyd.notify.sms.channel import SmsConfig
from safetyd.notify.sms.delivery_reports import arrived
from safetyd.notify.sms.sms_channel import STATUS_PATH, arrival
from safetyd.notify.sms.sms_replies import (
    HELP,
    SAID,
    Patience,
    Reply,
    SmsAnswer,
    parse,
    signed,
    twiml,
)

BODY_S: Final = 5.0
FORM: Final = "application/x-www-form-urlencoded"
NIGHT: Final = timedelta(hours=8)


class Sender(NamedTuple):
    """A phone number and its recipient."""

    recipient: str
    number: str


class Asked(NamedTuple):
    """A request or a set that was sent by SMS, and when."""

    ref: str
    requests: tuple[Request, ...]
    sent: tuple[datetime, ...]

    @property
    def pending(self) -> tuple[Request, ...]:
        return tuple(request for request in self.requests if request.pending)


class TwilioHooks:
    def __init__(self, context: ChannelContext, carry_out: CarryOut) -> None:
        self._context = context
        self._carry_out = carry_out
        self._patience = Patience()

    @property
    def hooks(self) -> tuple[Hook, ...]:
        return Hook("/hooks/sms", self._post_reply), Hook(STATUS_PATH, self._post_status)

    @property
    def _config(self) -> SmsConfig:
        return self._context.tables().notifications.of(SmsConfig)

    def _auth_token(self) -> str:
        """Return the token that Twilio signs with. If it is empty, reject everything."""
        try:
            return self._context.secret(
                self._config.auth_token_file if self._config.enabled else ""
            )
        except Misconfigured:
            return ""

    async def _post_reply(self, request: web.Request) -> web.Response:
        fields = await self._believed(request)
        number = fields.get("From", "")
        recipient = recipient_at(self._context.tables(), "sms", number)
        if not recipient:
            return _said("")
        return _said(await self._reply(Sender(recipient, number), parse(fields.get("Body", ""))))

    async def _post_status(self, request: web.Request) -> web.Response:
        fields = await self._believed(request)
        state = arrival(fields.get("MessageStatus", ""))
        plan = arrived(fields.get("MessageSid", ""), state)
        try:
            await self._carry_out(plan)
        except Unanswered:
            raise web.HTTPServiceUnavailable(headers={"Retry-After": "5"}) from None
        return web.Response(status=204)

    async def _believed(self, request: web.Request) -> dict[str, str]:
        """Return the fields of a form that Twilio signed; reject any other."""
        signature = request.headers.get("X-Twilio-Signature", "")
        if not signature or request.content_type != FORM:
            raise web.HTTPForbidden
        try:
            with anyio.fail_after(BODY_S):
                form = await request.post()
        except TimeoutError:
            raise web.HTTPRequestTimeout from None
        except (ConnectionError, web.RequestPayloadError, ValueError, LookupError):
            # This includes a wrong content encoding or an unknown charset.
            raise web.HTTPBadRequest from None
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        token, url = self._auth_token(), self._context.public_url + request.path_qs
        if not token or not signed(token, url, fields, signature):
            raise web.HTTPForbidden
        return fields

    async def _reply(self, sender: Sender, said: Reply) -> str:
        """Return the reply to a sender, or an empty string to send none."""
        plan = self._stopped(sender) if said == "stop" else self._taken(sender, said)
        try:
            return await self._carry_out(plan)
        except Unanswered:
            return SAID["not_recorded"]

    def _taken(self, sender: Sender, said: Reply) -> Plan[str]:
        patience, number = self._patience, sender.number

        def plan(state: EngineState, moment: Moment) -> Carried[str]:
            ignored = patience.ignores(number, moment.at)
            if ignored and not (isinstance(said, SmsAnswer) and not said.approve):
                return Carried((), "")
            if not isinstance(said, SmsAnswer):
                return Carried((), HELP if patience.may_reply(number) else "")
            asked = _asked_by_sms(state, sender.recipient, alone=said.approve)
            found = [each for each in asked if self._is(state, each, sender, said)]
            # A request that has ended may have the same code as a pending one.
            found = [each for each in found if each.pending] or found[:1]
            if len(found) != 1:
                patience.failed(number, moment.at, moment.at + NIGHT)
                locked = not ignored and patience.ignores(number, moment.at)
                told = SAID["unknown"] if patience.may_reply(number) else ""
                return Carried(_warning(state, moment, sender) if locked else (), told)
            patience.answered(number)
            return self._answered(state, moment, sender, said, found[0])

        return plan

    def _is(self, state: EngineState, asked: Asked, sender: Sender, said: SmsAnswer) -> bool:
        """Return whether a reply has the code of a message about a request or a set."""
        whose, code_name = sender.recipient, state.records.link_revocations.code_name
        named = {code_name(asked.ref, whose, at) for at in asked.sent}
        return sum(self._context.signer.code_ok(name, whose, said.code) for name in named) > 0

    def _answered(
        self, state: EngineState, moment: Moment, sender: Sender, said: SmsAnswer, asked: Asked
    ) -> Carried[str]:
        requests = asked.requests
        if 0 < len(asked.pending) < len(requests):
            if said.approve:
                return Carried((), SAID["changed"])
            requests = asked.pending
        given = Given(
            answer="approved" if said.approve else "denied",
            by=sender.recipient,
            via="sms",
            assurance="code",
        )
        whole = all(map(self._sent_whole, requests))
        done = answer_all(state, moment, requests, given, self._context.waits, may_approve=whole)
        return Carried(done.events, SAID[done.answer])

    def _sent_whole(self, request: Request) -> bool:
        """Return True if the SMS showed the whole action and a reply may approve its risk."""
        config = self._config
        return config.privacy == "full" and risk_within(request.asked.risk, config.max_risk)

    def _stopped(self, sender: Sender) -> Plan[str]:
        """Alert on other channels that a recipient opted out of SMS."""

        def plan(state: EngineState, moment: Moment) -> Carried[str]:
            text = f"{sender.recipient} replied STOP and gets no more SMS until they reply START."
            return Carried(_elsewhere(state, moment, "SMS stopped", text), "")

        return plan


def _warning(state: EngineState, moment: Moment, sender: Sender) -> Sequence[Event]:
    """Alert on other channels that approvals by SMS are ignored for some hours."""
    text = (
        f"Too many wrong codes came from the number of {sender.recipient}. For eight hours, "
        "replies from it can deny but not approve. Links and the terminal still work."
    )
    return _elsewhere(state, moment, "Wrong codes by SMS", text)


def _elsewhere(state: EngineState, moment: Moment, title: str, text: str) -> Sequence[Event]:
    """Return an alert for every channel except SMS."""
    kinds = state.policy.telling.channels.items()
    others = tuple(name for name, kind in kinds if kind != "sms")
    if not others:
        return ()
    note = Note(
        id=f"note_{secrets.token_hex(6)}",
        kind="alert",
        urgency="high",
        title=title,
        text=text,
        at=moment.at,
    )
    return (Announced(at=moment.at, t=moment.t, note=note, channels=others),)


def _asked_by_sms(state: EngineState, recipient: str, *, alone: bool) -> Iterator[Asked]:
    """Yield the requests and sets sent to a recipient by SMS.

    If `alone`, yield only those of messages that contain nothing else.
    """
    sent: dict[str, list[datetime]] = {}
    of_ref: dict[str, tuple[Request, ...]] = {}
    for delivery in state.outbox.deliveries():
        if delivery.recipient != recipient or not _is_sms(state, delivery):
            continue
        sets = {found.ref: found.requests for found in sets_in(state, delivery)}
        listed = delivery.items[: delivery.shown]
        singles = ((item.ref, state.approvals.find(item.ref)) for item in listed)
        for ref, requests in (
            *((ref, (request,)) for ref, request in singles if request is not None),
            *sets.items(),
        ):
            sent.setdefault(ref, []).append(delivery.at)
            if not alone or len(requests) == len(delivery.items):
                of_ref[ref] = requests
    for ref, requests in of_ref.items():
        yield Asked(ref, requests, tuple(sent[ref]))


def _is_sms(state: EngineState, delivery: Delivery) -> bool:
    return state.policy.telling.channels.get(delivery.channel) == "sms"


def _said(text: str) -> web.Response:
    return web.Response(text=twiml(text), content_type="text/xml")
