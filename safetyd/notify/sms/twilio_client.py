"""Connect twilio's client to Twilio through aiohttp, with an enforced timeout.

The library's asynchronous transport never ends a request that hangs. This module imports twilio,
which takes a third of a second, so import it in a worker thread.
"""

import base64
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import msgspec
from twilio.http import AsyncHttpClient  # type: ignore[import-untyped]
from twilio.http.response import Response  # type: ignore[import-untyped]
from twilio.rest import Client  # type: ignore[import-untyped]

from safetyd.notify.channel import Misconfigured, Unavailable, Undeliverable
from safetyd.notify.http_post import HttpAnswer, exchange

FORM: Final = "application/x-www-form-urlencoded"
MAX_BYTES: Final = 64 * 1024  # maximum size of a response

# Twilio's own error texts are not shown, because they contain the phone number.
_REFUSED: Final = {
    21211: "the recipient's number is not valid",
    21408: "messages to the recipient's country are not enabled",
    21604: "the recipient has no number",
    21610: "the recipient has answered STOP",
    21612: "this sender cannot reach the recipient",
    21614: "the recipient's number cannot receive messages",
    21617: "the message is too long",
}
_MISCONFIGURED: Final = {
    20003: "the account or its token is wrong",
    20404: "there is no such account",
    21212: "the sender is not valid",
    21603: "there is no sender",
    21606: "the sender is not a number of this account that can send messages",
    21609: "the address for reports is not valid",
    21659: "the sender is not a number of this account",
    30002: "the account is suspended",
}
_WRONG_PLACE: Final = frozenset({401, 403, 404, 407})
_LATER: Final = frozenset({408, 425, 429})
_LATER_CODES: Final = frozenset({20429, 20500, 30001, 30008})


class _Problem(msgspec.Struct):
    """The body of an error response from Twilio."""

    code: int = 0


def connect(account_sid: str, auth_token: str, api_url: str, timeout_s: float) -> Any:
    """Return the messages of an account from twilio's client.

    `api_url` replaces the URL of the API. Environment variables of twilio are ignored.
    """
    client = Client(
        account_sid,
        auth_token,
        http_client=Transport(timeout_s, api_url),
        environment={"TWILIO_REGION": ""},  # an empty dict would be ignored
    )
    return client.messages


class Transport(AsyncHttpClient):  # type: ignore[misc] # twilio has no types
    """Sends requests with a timeout that also covers a slow response body.

    An unsuccessful response raises one of the three errors of a channel.
    """

    def __init__(self, timeout_s: float, api_url: str = "") -> None:
        super().__init__(logging.getLogger(__name__), is_async=True, timeout=timeout_s)
        self._timeout_s = timeout_s
        self._api_url = api_url.rstrip("/")

    async def request(  # noqa: PLR0913 - twilio's signature
        self,
        method: str,
        uri: str,
        *,
        params: Mapping[str, object] | None = None,
        data: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - twilio's signature
        allow_redirects: bool = False,  # noqa: ARG002
    ) -> Response:
        answer = await exchange(
            self._address(uri, params or {}),
            urlencode(data or {}, doseq=True).encode(),
            {"Content-Type": FORM, **(headers or {}), **_login(auth)},
            timeout_s=timeout or self._timeout_s,
            most=MAX_BYTES,
            method=method,
        )
        if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
            raise refusal(answer)
        return Response(answer.status, _checked(answer.said))

    def _address(self, uri: str, params: Mapping[str, object]) -> str:
        url = self._api_url + urlsplit(uri).path if self._api_url else uri
        return f"{url}?{urlencode(params, doseq=True)}" if params else url


def _login(auth: tuple[str, str] | None) -> dict[str, str]:
    if auth is None:
        return {}
    return {"Authorization": f"Basic {base64.b64encode(':'.join(auth).encode()).decode()}"}


def refusal(answer: HttpAnswer) -> Exception:
    """Return the channel's error for a response from Twilio."""
    status, code = answer.status, _code(answer.said)
    why = f"Twilio answered HTTP {status}"
    if code:
        known = _REFUSED.get(code) or _MISCONFIGURED.get(code) or "see twilio.com/docs/api/errors"
        why += f", error {code}: {known}"
    if code in _MISCONFIGURED:
        return Misconfigured(why)
    if code in _LATER_CODES or status in _LATER or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        late = status == HTTPStatus.GATEWAY_TIMEOUT
        return Unavailable(why, retry_after_s=answer.retry_after_s, ambiguous=late)
    if code not in _REFUSED and (status in _WRONG_PLACE or status < HTTPStatus.BAD_REQUEST):
        return Misconfigured(why)
    return Undeliverable(why)


def _code(body: str) -> int:
    """Return Twilio's error code; 0 if the body is not from Twilio, such as a proxy's."""
    try:
        return msgspec.json.decode(body, type=_Problem).code
    except msgspec.DecodeError:
        return 0


def _checked(body: str) -> str:
    """Validate the body of a successful response, because twilio's client does not."""
    try:
        msgspec.json.decode(body, type=dict[str, object])
    except msgspec.DecodeError:
        raise Unavailable("cannot parse Twilio's response", ambiguous=True) from None
    return body
