"""Settings of Telegram."""

from collections.abc import Callable
from typing import ClassVar, Final

from safetyd.notify.channel import (
    Channel,
    ChannelContext,
    Hints,
    Limits,
    PersonalTable,
    Preview,
    Problems,
    needed,
    url_problems,
)
from safetyd.notify.message import Notice

_START: Final = "the recipient must write /start to the bot, and not block it"


class TelegramConfig(PersonalTable, frozen=True, kw_only=True):
    token_file: str = ""  # a file with the bot's token from @BotFather
    api_url: str = "https://api.telegram.org"

    secret_files: ClassVar[tuple[str, ...]] = ("token_file",)
    hints: ClassVar[Hints] = (("chat not found", _START), ("blocked by the user", _START))

    @classmethod
    def wrong_address(cls, address: str) -> str:
        # A group has a negative id; everyone in it could use the buttons.
        right = address.isascii() and address.isdecimal() and int(address) > 0
        return "" if right else f"{address!r} is not the id of a Telegram user such as 123456789"

    def problems(self) -> Problems:
        yield from needed(token_file=self.token_file)
        yield from url_problems("api_url", self.api_url)

    async def open(self, name: str, context: ChannelContext) -> Channel:
        from safetyd.notify.telegram.bot_api import BotApi  # noqa: PLC0415 - only if configured
        from safetyd.notify.telegram.telegram_channel import Telegram  # noqa: PLC0415 - see above

        return Telegram(name, BotApi(self.api_url, context.secret(self.token_file)), context)

    async def check(self, read: Callable[[str], str]) -> str:
        from safetyd.notify.telegram.bot_api import BotApi  # noqa: PLC0415 - see above

        bot = await BotApi(self.api_url, read(self.token_file)).me()
        return f"the token belongs to @{bot.username}"

    def limits(self) -> Limits:
        from safetyd.notify.telegram.telegram_channel import LIMITS  # noqa: PLC0415

        return LIMITS

    def preview(self, notice: Notice) -> Preview:
        from safetyd.notify.shortening import in_units  # noqa: PLC0415 - see above
        from safetyd.notify.telegram.telegram_message import written  # noqa: PLC0415 - see above

        message = written(notice, lambda *_: "")
        rows = ("".join(f"[{button.text}] " for button in row) for row in message.keyboard)
        text = "\n".join((message.text, "", *rows)).rstrip()
        return Preview(text=text, size=f"{in_units(message.text)} of 4096 characters")


CHANNEL = TelegramConfig
