"""Refusals over HTTP: the code becomes the status, and the body is the same as on the bus."""

import math
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from aiohttp import web

from safetyd.journal.mailbox import Unanswered
from safetyd.operators.replies import CommandRefused, Refusal, refused
from safetyd.web.http_server import of_another_page

NOT_STORED: Final = {"Cache-Control": "no-store"}
STATUSES: Final[Mapping[str, int]] = {
    "invalid": 400,
    "no_token": 401,
    "other_agent": 403,
    "other_site": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "gone": 410,
    "too_large": 413,
    "unsupported_media_type": 415,
    "upgrade_required": 426,
    "rate_limit": 429,
    "internal": 500,
    "unavailable": 503,
    "unreadable": 503,
}
OTHERS: Final = 400  # the status for all other codes
LEAST_S: Final = 1
CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="safetyd"'}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_encode = msgspec.json.Encoder().encode


class HttpRefusal(Exception):
    """A request is refused."""

    def __init__(self, code: str, error: str, wait_s: float | None = None) -> None:
        super().__init__(error)
        self.refusal = refused(code, error)
        if wait_s is not None:
            self.refusal = msgspec.structs.replace(self.refusal, retry_after_s=wait_s)


def refusal_response(refusal: Refusal) -> web.Response:
    status = status_of(refusal.code)
    challenge = CHALLENGE if status == HTTPStatus.UNAUTHORIZED else {}
    return json_response(_encode(refusal), status, {**retry_after(refusal), **challenge})


def json_response(
    body: bytes, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    return web.Response(
        status=status,
        body=body + b"\n",
        content_type="application/json",
        headers={**NOT_STORED, **(headers or {})},
    )


def status_of(code: str) -> int:
    return STATUSES.get(code, OTHERS)


def retry_after(refusal: Refusal) -> dict[str, str]:
    """Return the Retry-After header, if a retry helps."""
    if status_of(refusal.code) not in {429, 503}:
        return {}
    wait = refusal.retry_after_s
    seconds = LEAST_S if wait is msgspec.UNSET else max(math.ceil(wait), LEAST_S)
    return {"Retry-After": str(seconds)}


def refuse_other_sites(request: web.Request) -> None:
    """Refuse requests from pages of other sites."""
    if of_another_page(request):
        raise HttpRefusal("other_site", "not available to pages of other sites")


@web.middleware
async def refusals_are_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except HttpRefusal as exc:
        return refusal_response(exc.refusal)
    except CommandRefused as exc:
        return refusal_response(refused(exc.code, str(exc)))
    except Unanswered as exc:
        return refusal_response(refused("unavailable", str(exc)))
