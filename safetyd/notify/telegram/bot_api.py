"""Telegram's Bot API over HTTPS: its methods, answers and errors.

The token is part of every URL, so errors contain only the host of a URL.
"""

from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec

from safetyd.core.text.visible_text import printable_line
from safetyd.notify.channel import Misconfigured, Unavailable, Undeliverable
from safetyd.notify.http_post import exchange, host_of

TIMEOUT_S: Final = 9.0
POLL_S: Final = 50
MAX_BYTES: Final = 4 * 1024 * 1024  # enough for a response with a hundred updates
WHY_CHARS: Final = 200
Result = TypeVar("Result")


class User(msgspec.Struct, frozen=True):
    id: int
    username: str = ""


class Message(msgspec.Struct, frozen=True):
    message_id: int


class Written(msgspec.Struct, frozen=True):
    """A message to the bot."""

    from_: User | None = msgspec.field(name="from", default=None)


class CallbackQuery(msgspec.Struct, frozen=True):
    """A tap on a button."""

    id: str
    from_: User = msgspec.field(name="from")
    data: str = ""


class Update(msgspec.Struct, frozen=True):
    update_id: int
    callback_query: CallbackQuery | None = None
    message: Written | None = None


class _Parameters(msgspec.Struct, frozen=True):
    retry_after: float | None = None


class _Answer(msgspec.Struct, frozen=True):
    ok: bool
    result: msgspec.Raw = msgspec.Raw(b"null")
    error_code: int = 0
    description: str = ""
    parameters: _Parameters = _Parameters()


class Conflict(Unavailable):
    """Another program or a webhook receives this bot's updates."""


class BotApi:
    def __init__(self, api_url: str, token: str) -> None:
        self._base = f"{api_url.rstrip('/')}/bot{token}/"
        self._token = token
        self._host = host_of(api_url)

    async def send(self, **fields: Any) -> Message:
        return await self._call("sendMessage", fields, Message)

    async def edit(self, **fields: Any) -> None:
        await self._call("editMessageText", fields, msgspec.Raw)

    async def answer(self, query: str, text: str, *, alert: bool) -> None:
        """Show the user the outcome of a tap; until then the button keeps spinning."""
        fields = {"callback_query_id": query, "text": text, "show_alert": alert}
        await self._call("answerCallbackQuery", fields, msgspec.Raw)

    async def me(self) -> User:
        return await self._call("getMe", {}, User)

    async def updates(self, offset: int | None) -> list[Update]:
        """Wait for taps. Taps before `offset` are confirmed and not returned again."""
        fields = {"timeout": POLL_S, "allowed_updates": ["callback_query", "message"]}
        if offset is not None:
            fields["offset"] = offset
        return await self._call("getUpdates", fields, list[Update], timeout_s=POLL_S + TIMEOUT_S)

    async def _call(
        self, method: str, fields: object, kind: type[Result], *, timeout_s: float = TIMEOUT_S
    ) -> Result:
        """Call a method and return its result, or raise one of a channel's three errors."""
        body, headers = msgspec.json.encode(fields), {"Content-Type": "application/json"}
        got = await exchange(
            self._base + method, body, headers, timeout_s=timeout_s, most=MAX_BYTES
        )
        try:
            answer = msgspec.json.decode(got.said, type=_Answer)
            if answer.ok:
                return msgspec.json.decode(answer.result, type=kind)
        except msgspec.DecodeError:
            answer = _Answer(ok=False, error_code=got.status)
        raise self._error(answer)

    def _error(self, answer: _Answer) -> Exception:
        code, said = answer.error_code, answer.description.replace(self._token, "[secret]")
        why = f"{self._host} answered {code} {printable_line(said)[:WHY_CHARS]}".rstrip()
        if code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND}:
            return Misconfigured(f"{why}; check the bot's token")
        if code == HTTPStatus.CONFLICT:
            return Conflict(why)
        if code in {HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN}:
            return Undeliverable(why)
        return Unavailable(why, retry_after_s=answer.parameters.retry_after)
