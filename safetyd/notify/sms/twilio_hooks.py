"""Webhooks that Twilio calls: SMS replies and delivery reports.

Only requests signed by Twilio for the configured URL are accepted, and only recipients' numbers get
a reply. An answer is a letter and the code from the message.
"""

from collections.abc import Iterator
from typing import Final

import anyio
from aiohttp import web

from safetyd.core.approvals.assurance import risk_within
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.outbox.deliveries import Delivery
from safetyd.journal.mailbox import Carried, Plan, Unanswered
from safetyd.notify.address_book import recipient_at
from safetyd.notify.channel import CarryOut, ChannelContext, Hook, Misconfigured
from safetyd.notify.code_replies import Asked, CodeAnswer, CodeReplies, Sender, elsewhere
from safetyd.notify.message_sets import sets_in
from safetyd.notify.sms.channel import SmsConfig
from safetyd.notify.sms.delivery_reports import arrived
from safetyd.notify.sms.sms_channel import STATUS_PATH, arrival
from safetyd.notify.sms.sms_replies import (
    HELP,
    SAID,
    Reply,
    parse,
    signed,
    twiml,
)

BODY_S: Final = 5.0
FORM: Final = "application/x-www-form-urlencoded"


class TwilioHooks:
    def __init__(self, context: ChannelContext, carry_out: CarryOut) -> None:
        self._context = context
        self._carry_out = carry_out
        self._replies = CodeReplies("sms", "SMS", context.signer, context.waits)

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
        replies, number = self._replies, sender.address

        def plan(state: EngineState, moment: Moment) -> Carried[str]:
            if not isinstance(said, CodeAnswer):
                quiet = replies.patience.ignores(number, moment.at)
                quiet = quiet or not replies.patience.may_reply(number)
                return Carried((), "" if quiet else HELP)
            asked = self._asked(state, sender.recipient, alone=said.approve)
            events, outcome = replies.taken(state, moment, sender, said, asked, via="sms")
            if outcome == "ignored":
                return Carried(events, "")
            quiet = outcome == "unknown" and not replies.patience.may_reply(number)
            return Carried(events, "" if quiet else SAID[outcome])

        return plan

    def _asked(self, state: EngineState, whose: str, *, alone: bool) -> Iterator[Asked]:
        """Yield the requests and sets sent to a recipient by SMS.

        If `alone`, yield only those of messages that contain nothing else.
        """
        code_name = state.records.link_revocations.code_name
        found: dict[str, tuple[Request, ...]] = {}
        names: dict[str, set[str]] = {}
        for delivery in state.outbox.deliveries():
            if delivery.recipient != whose or not _is_sms(state, delivery):
                continue
            for ref, requests in _shown(state, delivery):
                names.setdefault(ref, set()).add(code_name(ref, whose, delivery.at))
                if not alone or len(requests) == len(delivery.items):
                    found[ref] = requests
        for ref, requests in found.items():
            whole = all(map(self._sent_whole, requests))
            yield Asked(ref, requests, frozenset(names[ref]), whole)

    def _sent_whole(self, request: Request) -> bool:
        """Return True if the SMS showed the whole action and a reply may approve its risk."""
        config = self._config
        return config.privacy == "full" and risk_within(request.asked.risk, config.max_risk)

    def _stopped(self, sender: Sender) -> Plan[str]:
        """Alert on other channels that a recipient opted out of SMS."""

        def plan(state: EngineState, moment: Moment) -> Carried[str]:
            text = f"{sender.recipient} replied STOP and gets no more SMS until they reply START."
            return Carried(elsewhere(state, moment, "SMS stopped", text, besides="sms"), "")

        return plan


def _shown(state: EngineState, delivery: Delivery) -> Iterator[tuple[str, tuple[Request, ...]]]:
    """Yield the requests and sets that a message lists."""
    for item in delivery.items[: delivery.shown]:
        request = state.approvals.find(item.ref)
        if request is not None:
            yield request.id, (request,)
    yield from ((found.ref, found.requests) for found in sets_in(state, delivery))


def _is_sms(state: EngineState, delivery: Delivery) -> bool:
    return state.policy.telling.channels.get(delivery.channel) == "sms"


def _said(text: str) -> web.Response:
    return web.Response(text=twiml(text), content_type="text/xml")
