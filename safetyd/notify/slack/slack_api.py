"""Slack's Web API through Slack's own library: the methods that safetyd uses, and their errors.

The library neither logs nor retries here: its log has URLs that contain secrets, and a retry could
send a message twice.
"""

import logging
from collections.abc import Awaitable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from safetyd.core.text.visible_text import printable_line
from safetyd.notify.channel import Misconfigured, Unavailable, Undeliverable
from safetyd.notify.http_post import host_of, retry_after_s, trouble
from safetyd.notify.slack.slack_message import SlackMessage

TIMEOUT_S: Final = 9
WHY_CHARS: Final = 200
QUIET: Final = logging.getLogger("safetyd.slack_sdk")
QUIET.setLevel(logging.CRITICAL + 1)

# Errors that last until an operator fixes the app, its tokens or the workspace.
_MISCONFIGURED: Final = frozenset(
    {
        *("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"),
        *("missing_scope", "no_permission", "not_allowed_token_type", "access_denied"),
        *("accesslimited", "team_access_not_granted", "enterprise_is_restricted"),
        *("org_login_required", "ekm_access_denied", "two_factor_setup_required"),
        *("socket_mode_not_enabled", "messages_tab_disabled", "unknown_method"),
        *("deprecated_endpoint", "method_deprecated"),
    }
)
_LATER: Final = frozenset(
    {"ratelimited", "rate_limited", "service_unavailable", "team_added_to_org"}
)
# After these errors, Slack may have carried out the call.
_AMBIGUOUS: Final = frozenset({"internal_error", "fatal_error", "request_timeout"})
_LATER_STATUS: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


class Identity(NamedTuple):
    """The app of a bot token."""

    user: str  # the name of its bot user
    team: str
    scopes: frozenset[str]  # empty if Slack does not say


class Sent(NamedTuple):
    """A message that was sent. Its time identifies it within its channel."""

    channel: str
    ts: str

    @classmethod
    def parsed(cls, provider_id: str) -> "Sent":
        channel, _, ts = provider_id.partition("/")
        return cls(channel, ts)

    @property
    def provider_id(self) -> str:
        return f"{self.channel}/{self.ts}"


class SlackApi:
    def __init__(self, api_url: str, bot_token: str, app_token: str) -> None:
        self.app_token = app_token
        self._secrets = (bot_token, app_token)
        self._host = host_of(api_url)
        self.web = AsyncWebClient(
            bot_token, base_url=api_url, timeout=TIMEOUT_S, logger=QUIET, retry_handlers=[]
        )
        self.web.proxy = None  # like all channels, it ignores HTTPS_PROXY

    async def identity(self) -> Identity:
        found = await self._call(self.web.auth_test())
        scopes = found.headers.get("x-oauth-scopes", "")
        named = frozenset(filter(None, (scope.strip() for scope in scopes.split(","))))
        return Identity(str(found.get("user", "")), str(found.get("team", "")), named)

    async def connection_url(self) -> str:
        """Return the URL of a new Socket Mode connection. It contains a secret."""
        found = await self._call(self.web.apps_connections_open(app_token=self.app_token))
        return str(found["url"])

    async def direct_channel(self, user: str) -> str:
        """Return the id of the channel for direct messages to a user."""
        found = await self._call(self.web.conversations_open(users=user))
        return str(found["channel"]["id"])

    async def send(self, channel: str, message: SlackMessage) -> Sent:
        call = self.web.chat_postMessage(
            channel=channel,
            text=message.summary,
            blocks=message.blocks,  # type: ignore[arg-type] # the library accepts any mapping
            unfurl_links=False,
            unfurl_media=False,
        )
        found = await self._call(call, sends=True)
        return Sent(str(found["channel"]), str(found["ts"]))

    async def edit(self, sent: Sent, message: SlackMessage) -> None:
        call = self.web.chat_update(
            channel=sent.channel,
            ts=sent.ts,
            text=message.summary,
            blocks=message.blocks,  # type: ignore[arg-type] # see above
        )
        await self._call(call)

    async def whisper(self, channel: str, user: str, text: str) -> None:
        """Show a text to one user of a channel."""
        await self._call(self.web.chat_postEphemeral(channel=channel, user=user, text=text))

    async def _call(self, call: Awaitable[Any], *, sends: bool = False) -> Any:
        """Return the response of a call, or raise one of a channel's three errors."""
        try:
            return await call
        except SlackApiError as exc:
            error = self._refusal(exc.response)
        except AttributeError:  # the library's error for a response that is not JSON
            error = Unavailable(f"{self._host} gave an unknown response", ambiguous=True)
        except (aiohttp.ClientError, TimeoutError, ValueError) as exc:
            error = trouble(self._host, exc, TIMEOUT_S)
        if isinstance(error, Unavailable):
            error.ambiguous &= sends
        raise error

    def _refusal(self, response: Any) -> Exception:
        """Return the channel's error for a response that is not a success."""
        said = getattr(response, "data", None)
        answer: Mapping[str, object] = said if isinstance(said, Mapping) else {}
        error = str(answer.get("error", ""))
        status = int(getattr(response, "status_code", 0) or getattr(response, "status", 0))
        why = f"{self._host} answered {self._named(error, answer) or status}"
        after_s = retry_after_s(response.headers)
        if error in _LATER or status in _LATER_STATUS:
            return Unavailable(why, retry_after_s=after_s)
        if error in _AMBIGUOUS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return Unavailable(why, retry_after_s=after_s, ambiguous=True)
        if error in _MISCONFIGURED or not error:
            return Misconfigured(why)
        return Undeliverable(why)

    def _named(self, error: str, answer: Mapping[str, object]) -> str:
        """Return the name of an error, and the scope that is missing."""
        needed = (
            f", needed: {answer['needed']}"
            if error == "missing_scope" and "needed" in answer
            else ""
        )
        said = f"{error}{needed}"
        for secret in self._secrets:
            said = said.replace(secret, "[secret]")
        return printable_line(said)[:WHY_CHARS]
