"""Settings of SMS through Twilio."""

from collections.abc import Iterable
from typing import ClassVar, Literal

import msgspec

from safetyd.core.messages.proposal import Risk
from safetyd.core.recipients import ChannelKind
from safetyd.notify.channel import (
    CarryOut,
    Channel,
    ChannelContext,
    Hints,
    Hook,
    Limits,
    Package,
    PersonalTable,
    Preview,
    Problems,
    needed,
    url_problems,
)
from safetyd.notify.message import Notice


class SmsConfig(PersonalTable, frozen=True, kw_only=True):
    from_: str = msgspec.field(name="from", default="")
    provider: Literal["twilio"] = "twilio"
    account_sid: str = ""
    auth_token_file: str = ""
    api_url: str = ""
    max_risk: Literal["low", "medium", "high"] = "high"  # the highest risk that a reply may approve

    kind: ClassVar[ChannelKind] = "sms"
    rank: ClassVar[int] = 30
    secret_files: ClassVar[tuple[str, ...]] = ("auth_token_file",)
    needs: ClassVar[Package | None] = Package("twilio", "sms")
    hints: ClassVar[Hints] = (("20003", "check account_sid and auth_token_file"),)

    @property
    def reply_risk(self) -> Risk | None:
        return self.max_risk

    @property
    def takes_replies(self) -> bool:
        """True if recipients can reply: the sender must be a number, not a name."""
        return self.from_.removeprefix("+").isdecimal()

    @classmethod
    def wrong_address(cls, address: str) -> str:
        right = address.startswith("+") and address[1:].isdigit()
        return "" if right else f"{address!r} is not a number such as +15550100"

    def problems(self) -> Problems:
        yield from needed(
            from_=self.from_, account_sid=self.account_sid, auth_token_file=self.auth_token_file
        )
        if self.api_url:
            yield from url_problems("api_url", self.api_url)

    async def open(self, name: str, context: ChannelContext) -> Channel:  # noqa: ARG002
        from safetyd.notify.sms.sms_channel import open_sms  # noqa: PLC0415 - only if configured

        return await open_sms(self, context)

    def limits(self) -> Limits:
        from safetyd.notify.sms.sms_channel import LIMITS  # noqa: PLC0415 - only if configured

        return LIMITS

    def preview(self, notice: Notice) -> Preview:
        from safetyd.notify.sms.gsm import segments, septets  # noqa: PLC0415 - see above
        from safetyd.notify.sms.sms_text import text_of  # noqa: PLC0415 - see above

        text = text_of(notice, replies=self.takes_replies)
        return Preview(text=text, size=f"{septets(text)} septets, {segments(text)} SMS")

    @classmethod
    def hooks(cls, context: ChannelContext, carry_out: CarryOut) -> Iterable[Hook]:
        from safetyd.notify.sms.twilio_hooks import TwilioHooks  # noqa: PLC0415 - it imports aiohttp

        return TwilioHooks(context, carry_out).hooks


CHANNEL = SmsConfig
