"""Settings of Slack."""

import re
from collections.abc import Callable
from typing import ClassVar, Final

from safetyd.notify.channel import (
    Channel,
    ChannelContext,
    Hints,
    Limits,
    Misconfigured,
    Package,
    PersonalTable,
    Preview,
    Problems,
    needed,
    url_problems,
)
from safetyd.notify.message import Notice

SCOPES: Final = frozenset({"chat:write", "im:write"})  # of the bot token

_is_user = re.compile(r"[UW][A-Z0-9]{5,20}").fullmatch
_is_channel = re.compile(r"[CG][A-Z0-9]{5,20}").fullmatch

_TOKENS: Final = (
    "bot_token_file needs the token that begins with xoxb- (OAuth & Permissions), app_token_file "
    "the one that begins with xapp- (Basic Information)"
)
_SCOPE: Final = (
    "add the scope at api.slack.com/apps (connections:write: a new app-level token; others: OAuth "
    "& Permissions, then reinstall the app), and update the token file"
)
_JOIN: Final = "check the id; in a channel, invite the app first: /invite @safetyd"


class SlackConfig(PersonalTable, frozen=True, kw_only=True):
    bot_token_file: str = ""  # a file with the bot token (xoxb-…)
    app_token_file: str = ""  # a file with the app-level token (xapp-…)
    channel_users: tuple[str, ...] = ()  # user ids that may answer if an address is a channel
    api_url: str = "https://slack.com/api"

    secret_files: ClassVar[tuple[str, ...]] = ("bot_token_file", "app_token_file")
    needs: ClassVar[Package | None] = Package("slack_sdk", "slack")
    hints: ClassVar[Hints] = (
        ("missing_scope", _SCOPE),
        ("not_allowed_token_type", _TOKENS),
        ("invalid_auth", _TOKENS),
        ("socket_mode_not_enabled", "turn on Socket Mode at api.slack.com/apps"),
        ("messages_tab_disabled", "turn on the Messages Tab under App Home"),
        ("channel_not_found", _JOIN),
        ("not_in_channel", _JOIN),
        ("user_not_found", "copy the member ID from the user's profile in Slack"),
    )

    @classmethod
    def wrong_address(cls, address: str) -> str:
        if is_user(address) or _is_channel(address):
            return ""
        return f"{address!r} is not the id of a Slack user such as U012AB3CD, or of a channel"

    def problems(self) -> Problems:
        yield from needed(bot_token_file=self.bot_token_file, app_token_file=self.app_token_file)
        yield from url_problems("api_url", self.api_url)
        for user in self.channel_users:
            if not is_user(user):
                yield "channel_users", f"{user!r} is not the id of a Slack user such as U012AB3CD"

    async def open(self, name: str, context: ChannelContext) -> Channel:
        from safetyd.notify.slack.slack_api import SlackApi  # noqa: PLC0415 - only if configured
        from safetyd.notify.slack.slack_channel import Slack  # noqa: PLC0415 - see above

        tokens = (context.secret(self.bot_token_file), context.secret(self.app_token_file))
        return Slack(name, SlackApi(self.api_url, *tokens), context, self.channel_users)

    async def check(self, read: Callable[[str], str]) -> str:
        from safetyd.notify.slack.slack_api import SlackApi  # noqa: PLC0415 - see above

        api = SlackApi(self.api_url, read(self.bot_token_file), read(self.app_token_file))
        app = await api.identity()
        if missing := SCOPES - app.scopes if app.scopes else ():
            names = ", ".join(sorted(missing))
            raise Misconfigured(f"the bot token has no scope {names} (missing_scope); {_SCOPE}")
        await api.connection_url()
        return f"the tokens belong to @{app.user} in {app.team}"

    def limits(self) -> Limits:
        from safetyd.notify.slack.slack_channel import LIMITS  # noqa: PLC0415 - see above

        return LIMITS

    def preview(self, notice: Notice) -> Preview:
        from safetyd.notify.shortening import in_units  # noqa: PLC0415 - see above
        from safetyd.notify.slack.slack_message import MAX_UNITS, written  # noqa: PLC0415

        public = bool(notice.address) and not is_user(notice.address)
        message = written(notice, lambda *_: "", public=public)
        rows = ("".join(f"[{button.label}] " for button in row) for row in message.rows)
        text = "\n".join((message.text, "", *rows)).rstrip()
        return Preview(text=text, size=f"{in_units(message.text)} of {MAX_UNITS:,} characters")


def is_user(address: str) -> bool:
    return _is_user(address) is not None


CHANNEL = SlackConfig
