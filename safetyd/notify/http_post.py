"""HTTP requests of channels. Failures raise one of a channel's three errors.

Redirects are not followed, connections are not reused, and only the beginning of a response is
read.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from safetyd.core.text.visible_text import printable_line
from safetyd.notify.channel import Misconfigured, Unavailable, Undeliverable

if TYPE_CHECKING:
    import aiohttp

CONNECT_S: Final = 5.0
READ_BYTES: Final = 1024
KEPT_BYTES: Final = 200

_LATER: Final = frozenset({408, 425, 429})
_BARRED: Final = frozenset({401, 403, 407})


class HttpAnswer(NamedTuple):
    status: int
    said: str  # the beginning of its body
    retry_after_s: float | None


async def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    timeout_s: float,
    secrets: Sequence[str] = (),
) -> str:
    """Post a body and return the beginning of a successful response, or raise a channel's error.

    Errors contain only the host of the URL, and none of the `secrets`.
    """
    answer = await exchange(url, body, headers, timeout_s=timeout_s)
    if HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        return answer.said
    raise _refusal(host_of(url), answer, secrets)


def host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or "no host"
    except ValueError:
        return "no host"


async def exchange(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    timeout_s: float,
    most: int = READ_BYTES,
    method: str = "POST",
) -> HttpAnswer:
    """Return a response of any status, with at most `most` bytes of its body.

    If there is no response, raise a channel's error, which contains only the host of the URL.
    """
    import aiohttp  # noqa: PLC0415 - slow, and not needed to render

    timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(CONNECT_S, timeout_s / 2))
    sent = {"User-Agent": "safetyd", "Accept-Encoding": "identity", **headers}
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as session,
            session.request(
                method, url, data=body, headers=sent, allow_redirects=False
            ) as response,
        ):
            said = await _beginning(response, most)
            return HttpAnswer(response.status, said, retry_after_s(response.headers))
    except (aiohttp.ClientError, TimeoutError, ValueError) as exc:
        raise trouble(host_of(url), exc, timeout_s) from None  # its text may contain the URL


async def _beginning(response: "aiohttp.ClientResponse", most: int) -> str:
    """Return the beginning of a response body. Do not read the rest."""
    said = b""
    while len(said) < most and (chunk := await response.content.read(most)):
        said += chunk
    response.close()
    return said[:most].decode("utf-8", "replace")


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return `Retry-After` in seconds, given as seconds or as a date."""
    given = headers.get("Retry-After", "").strip()
    if given.isascii() and given.isdigit():
        return float(given[:9])
    try:
        until, now = (parsedate_to_datetime(date) for date in (given, headers.get("Date", "")))
    except ValueError:
        return None
    return max(0.0, (until.astimezone(UTC) - now.astimezone(UTC)).total_seconds())


def trouble(host: str, exc: Exception, timeout_s: float) -> Exception:
    """Return the channel's error for a request without a response."""
    import aiohttp  # noqa: PLC0415 - see above

    match exc:
        case aiohttp.ClientSSLError():
            return Misconfigured(f"{host}: TLS failed: {_reason(exc)}")
        case aiohttp.ClientConnectorError():
            return Unavailable(f"{host} cannot be reached: {_reason(exc)}")
        case aiohttp.ConnectionTimeoutError():
            return Unavailable(f"{host} cannot be reached in time")
        case TimeoutError():
            return Unavailable(f"{host} did not answer within {timeout_s:g} s", ambiguous=True)
        case aiohttp.NonHttpUrlClientError() | ValueError():
            return Misconfigured(f"{host}: the URL or a header is not valid")
    return Unavailable(f"{host} closed the connection: {type(exc).__name__}", ambiguous=True)


def _reason(exc: "aiohttp.ClientConnectorError | aiohttp.ClientSSLError") -> str:
    cause = getattr(exc, "certificate_error", None) or exc.os_error
    return str(getattr(cause, "verify_message", "") or cause.strerror or type(cause).__name__)


def _refusal(host: str, answer: HttpAnswer, secrets: Sequence[str]) -> Exception:
    status, said = answer.status, without_secrets(answer.said, secrets)
    why = f"{host} answered {status}{f': {said}' if said else ''}"
    if status in _LATER or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unavailable(why, retry_after_s=answer.retry_after_s)
    if status in _BARRED:
        return Misconfigured(why)
    if status < HTTPStatus.BAD_REQUEST:
        return Misconfigured(f"{host} answered {status}; redirects are not followed")
    return Undeliverable(why)


def without_secrets(said: str, secrets: Sequence[str]) -> str:
    """Return one short printable line without secrets."""
    for secret in filter(None, secrets):
        said = said.replace(secret, "[secret]")
    return printable_line(said).encode()[:KEPT_BYTES].decode("utf-8", "ignore")
