"""SMS by Twilio: what a message says in one segment, two at most, and how it is sent.

twilio is imported when the channel is opened, in a worker thread.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, Protocol

from anyio import to_thread

from safetyd.core.messages.proposal import Risk
from safetyd.notify.channel import (
    HOUR_S,
    MINUTE_S,
    Limits,
    Misconfigured,
    Rate,
    Receipt,
    Unavailable,
    Undeliverable,
)
from safetyd.notify.channel_config import SmsConfig
from safetyd.notify.message import Notice, Privacy
from safetyd.notify.sms.sms_text import text_of


class TwilioSettings(NamedTuple):
    """What is configured of Twilio; without a token nothing is believed."""

    auth_token: str
    base_url: str  # that Twilio was given
    recipient_of: Callable[[str], str]  # of a number; empty: nobody's
    max_risk: Risk = "high"
    privacy: Privacy = "full"


Arrival = Literal["delivered", "undelivered"]
POLLS_S: Final = (60.0, 300.0, 1800.0)  # after sending, when it is asked whether it arrived

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

TIMEOUT_S: Final = 9.0  # less than the deadline, so that it is known what came of a try
VALID_S: Final = 600
LEAST_VALID_S: Final = 6  # with less Twilio may not send at all

_ARRIVALS: Final[Mapping[str, Arrival]] = {
    "delivered": "delivered",
    "read": "delivered",
    "undelivered": "undelivered",
    "failed": "undelivered",
    "canceled": "undelivered",
}


class TwilioMessage(Protocol):
    """What is used of a message of twilio's client."""

    sid: str | None
    status: str | None


class TwilioFound(Protocol):
    async def fetch_async(self) -> TwilioMessage: ...


class TwilioMessages(Protocol):
    """What is used of the messages of an account."""

    async def create_async(self, to: str, **fields: Any) -> TwilioMessage: ...

    def __call__(self, sid: str) -> TwilioFound: ...


class Sms:
    """The channel; `callback` is a public address where Twilio is to report, if there is one."""

    name = "sms"
    limits = LIMITS

    def __init__(self, config: SmsConfig, messages: TwilioMessages, *, callback: str = "") -> None:
        self._from = config.from_
        self._messages = messages
        self._reports = {"status_callback": callback} if callback else {}

    async def send(self, notice: Notice) -> Receipt:
        message = await self._messages.create_async(
            to=notice.address,
            from_=self._from,
            body=text_of(notice, replies=takes_replies(self._from)),
            validity_period=valid_s(notice),
            **self._reports,
        )
        return Receipt("accepted", message.sid or "")

    async def state_of(self, sid: str) -> Arrival | None:
        """Return whether a message arrived; None if that is not known, or cannot be asked now."""
        try:
            message = await self._messages(sid).fetch_async()
        except (Unavailable, Undeliverable, Misconfigured):
            return None
        return arrival(message.status or "")

    async def close(self) -> None:
        """Do nothing: each request has a connection of its own."""


async def open_sms(config: SmsConfig, auth_token: str, *, callback: str = "") -> Sms:
    """Return the channel without holding up the loop; it connects when it sends."""
    messages = await to_thread.run_sync(_messages, config, auth_token)
    return Sms(config, messages, callback=callback)


def arrival(status: str) -> Arrival | None:
    """Return what a status of Twilio's says about arrival; None: nothing yet."""
    return _ARRIVALS.get(status)


def takes_replies(sender: str) -> bool:
    """Say whether a sender can be answered: a number can, a name cannot."""
    return sender.removeprefix("+").isdecimal()


def valid_s(notice: Notice) -> int:
    """Return for how many seconds a message has a use: until the first of its requests ends."""
    ends = (topic.until for topic in notice.topics if topic.until is not None)
    left = [(end - notice.at).total_seconds() for end in ends if end > notice.at]
    return int(max(LEAST_VALID_S, min([VALID_S, *left])))


def _messages(config: SmsConfig, auth_token: str) -> TwilioMessages:
    from safetyd.notify.sms.twilio_client import connect  # noqa: PLC0415 - it imports twilio

    messages: TwilioMessages = connect(config.account_sid, auth_token, config.api_url, TIMEOUT_S)
    return messages
