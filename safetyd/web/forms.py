"""Reads forms, with size limits, and checks that our own page sent them."""

import re
from collections.abc import Collection, Mapping
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final
from urllib.parse import parse_qs, urlsplit

import anyio
from aiohttp import web

from safetyd.core.text.visible_text import marked
from safetyd.host import is_this_machine
from safetyd.web.link_answers import Form, Said
from safetyd.web.pages import result_pages
from safetyd.web.pages.result_pages import ResultPage

COOKIE: Final = "__Host-safetyd-device"
MAX_BODY: Final = 4096
MAX_FIELDS: Final = 16
LONG_BODY: Final = 48 * 1024  # for signed-in operators, who may answer many requests together
MANY_FIELDS: Final = 600
BODY_S: Final = 15.0
WORDS_CHARS: Final = 500
PEER_CHARS: Final = 200

_SAID: Final[dict[str, Said]] = {"approve": "approved", "deny": "denied", "test": "tested"}

_is_number = re.compile(r"[1-9][0-9]?\Z").match  # of a request in a set


class FormRefused(Exception):
    """A form is refused. `told` is the page that says so."""

    def __init__(self, told: ResultPage) -> None:
        super().__init__(told.status)
        self.told = told


def origin_of(url: str) -> str:
    """Return the origin of a URL, as browsers send it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def is_foreign(request: web.Request, public_origin: str) -> bool:
    """Return True if, according to the browser, a page of another site sent the form."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None and site != "same-origin":
        return True
    origin = request.headers.get("Origin", "").lower()
    if origin == "null":
        # Browsers send this origin from pages with no-referrer, even from our own.
        return site is None
    ours = {"", public_origin, f"{request.scheme}://{request.host}".lower()}
    return origin not in ours


def app_origin(request: web.Request, origins: Collection[str]) -> str:
    """Return the origin of the page that sent a form, if it is one of these; otherwise ""."""
    origin = request.headers.get("Origin", "")
    return origin if origin.lower() in origins else ""


async def read_fields(request: web.Request) -> dict[str, str]:
    """Return the fields of a form, each with its first value."""
    form = await read_form(request, MAX_BODY, MAX_FIELDS)
    return {name: values[0] for name, values in form.items()}


async def read_form(
    request: web.Request, max_body: int = LONG_BODY, max_fields: int = MANY_FIELDS
) -> dict[str, tuple[str, ...]]:
    """Return the fields of a form, each with all its values."""
    body = await _body(request, max_body)
    try:
        fields = parse_qs(body.decode(errors="replace"), max_num_fields=max_fields)
    except ValueError:
        raise FormRefused(result_pages.malformed(HTTPStatus.BAD_REQUEST)) from None
    return {name: tuple(values) for name, values in fields.items()}


async def _body(request: web.Request, max_body: int) -> bytes:
    body = b""
    try:
        with anyio.fail_after(BODY_S):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > max_body:
                    raise FormRefused(result_pages.malformed(HTTPStatus.REQUEST_ENTITY_TOO_LARGE))
    except TimeoutError:
        raise FormRefused(result_pages.malformed(HTTPStatus.REQUEST_TIMEOUT)) from None
    except (ConnectionError, web.RequestPayloadError):  # disconnected, or bad encoding
        raise FormRefused(result_pages.malformed(HTTPStatus.BAD_REQUEST)) from None
    return body


def caller(request: web.Request, *, proxied: bool) -> str:
    """Return the client's address, from the last entry of a local proxy's header if `proxied`."""
    remote = request.remote or ""
    if not proxied or not is_this_machine(remote):
        return remote
    # Some proxies add a second header line instead of extending the first.
    named = ",".join(request.headers.getall("X-Forwarded-For", ())).rpartition(",")[2]
    try:
        return str(ip_address(named.partition("%")[0].strip()))
    except ValueError:  # not an address; do not let it into notifications
        return remote


def answer_form(
    fields: Mapping[str, str],
    *,
    cookie: str = "",
    peer: str,
    relay: str = "",
    foreign: bool = False,
) -> Form:
    """Return an answer. `peer` says where it came from."""
    value, _, number = fields.get("v", "").partition("-")
    said = _SAID.get(value)
    if said is None or (number and not _is_number(number)):
        raise FormRefused(result_pages.malformed(HTTPStatus.BAD_REQUEST))
    return Form(
        said=said,
        nonce=fields.get("n", ""),
        code="".join(fields.get("c", "").split()),
        words=fields.get("m", "").strip()[:WORDS_CHARS],
        cookie=cookie,
        peer=marked(f"relay {relay}: {peer}" if relay else peer, "?")[:PEER_CHARS].strip(),
        relay=relay,
        foreign=foreign,
        only=int(number or 0),
    )


def peer_of(request: web.Request, address: str) -> str:
    """Return the address and browser of a client."""
    return f"{address} {request.headers.get('User-Agent', '')}"[:PEER_CHARS]
