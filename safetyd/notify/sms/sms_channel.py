"""Send SMS through Twilio, each in one segment or at most two.

twilio is imported when the channel is opened, in a worker thread.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from anyio import to_thread

from safetyd.cards.request_card import RequestCard
from safetyd.notify.channel import (
    HOUR_S,
    MINUTE_S,
    Channel,
    ChannelContext,
    Limits,
    Misconfigured,
    Rate,
    Receipt,
    Unavailable,
    Undeliverable,
)
from safetyd.notify.message import Notice
from safetyd.notify.sms.channel import SmsConfig
from safetyd.notify.sms.delivery_reports import Arrival, DeliveryReports
from safetyd.notify.sms.sms_text import text_of

LIMITS: Final = Limits(
    deadline_s=10.0,
    concurrency=2,
    rates=(Rate(1, 1.0),),
    recipient_rates=(
        Rate(1, MINUTE_S),
        Rate(5, 15 * MINUTE_S),
        Rate(11, HOUR_S),
        Rate(21, 3 * HOUR_S),
    ),
    delays_s=(15.0, 60.0, 300.0),
    max_tries=4,
    ambiguous_tries=1,
)

STATUS_PATH: Final = "/hooks/sms/status"
TIMEOUT_S: Final = 9.0  # less than the deadline of an attempt, so that its error is known
VALID_S: Final = 600
LEAST_VALID_S: Final = 6  # with a shorter validity, Twilio may not send the message at all

_ARRIVALS: Final[Mapping[str, Arrival]] = {
    "delivered": "delivered",
    "read": "delivered",
    "undelivered": "undelivered",
    "failed": "undelivered",
    "canceled": "undelivered",
}


class TwilioMessage(Protocol):
    """The attributes of twilio's message that safetyd uses."""

    sid: str | None
    status: str | None


class TwilioFound(Protocol):
    async def fetch_async(self) -> TwilioMessage: ...


class TwilioMessages(Protocol):
    """The methods of twilio's message list that safetyd uses."""

    async def create_async(self, to: str, **fields: Any) -> TwilioMessage: ...

    def __call__(self, sid: str) -> TwilioFound: ...


class Sms(Channel):
    """The channel. It polls for delivery; Twilio also posts reports to the public URL, if any."""

    name = "sms"
    limits = LIMITS

    def __init__(
        self, config: SmsConfig, messages: TwilioMessages, context: ChannelContext
    ) -> None:
        self._config = config
        self._messages = messages
        self._reports = DeliveryReports(context.mailbox, self.state_of)
        url = context.public_url
        self._callback = {"status_callback": url + STATUS_PATH} if url.startswith("https") else {}

    async def run(self) -> None:
        await self._reports.run()

    async def send(self, notice: Notice) -> Receipt:
        message = await self._messages.create_async(
            to=notice.address,
            from_=self._config.from_,
            body=text_of(notice, replies=self._config.takes_replies),
            validity_period=valid_s(notice),
            **self._callback,
        )
        return Receipt("accepted", message.sid or "")

    async def state_of(self, sid: str) -> Arrival | None:
        """Return whether a message arrived; None: unknown, or Twilio is unavailable."""
        try:
            message = await self._messages(sid).fetch_async()
        except (Unavailable, Undeliverable, Misconfigured):
            return None
        return arrival(message.status or "")


async def open_sms(config: SmsConfig, context: ChannelContext) -> Sms:
    """Return the channel without blocking the event loop; it connects when it sends."""
    token = context.secret(config.auth_token_file)
    return Sms(config, await to_thread.run_sync(_messages, config, token), context)


def arrival(status: str) -> Arrival | None:
    """Map a status of Twilio to an arrival; None: not known yet."""
    return _ARRIVALS.get(status)


def valid_s(notice: Notice) -> int:
    """Return the seconds until the first request in a message expires."""
    ends = (card.deadline for card in notice.cards if isinstance(card, RequestCard))
    left = [(end - notice.at).total_seconds() for end in ends if end and end > notice.at]
    return int(max(LEAST_VALID_S, min([VALID_S, *left])))


def _messages(config: SmsConfig, auth_token: str) -> TwilioMessages:
    from safetyd.notify.sms.twilio_client import connect  # noqa: PLC0415 - it imports twilio

    messages: TwilioMessages = connect(config.account_sid, auth_token, config.api_url, TIMEOUT_S)
    return messages
