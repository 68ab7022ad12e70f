"""The messages between a relay and the daemon, on `<prefix>.link.<relay>`, as JSON."""

import zlib
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

MAX_PAGE_BYTES: Final = 16 * 1024 * 1024  # more than any page has


class ViewLink(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="view"):
    """Asks for the page of a link."""

    token: str
    focus: str = ""  # "a" or "d": the button to select


class AnswerLink(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="answer"):
    """The form that a browser sent."""

    token: str
    fields: Mapping[str, str]
    peer: str = ""  # address and browser, as the relay says


class PingDaemon(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="ping"):
    """Asks whether a daemon answers."""


class RelayedPage(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="page"):
    """A page as the browser should get it."""

    status: int
    html: bytes  # compressed with zlib
    headers: Mapping[str, str]


class RelayRefusal(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="refused"):
    """There is no page. The relay shows its own for each code."""

    code: Literal["unknown", "too_often", "malformed", "unavailable", "no_key", "internal"]
    wait_s: float = 0.0
    under_way: bool = False  # the answer may still be recorded


class DaemonHere(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="here"):
    """A daemon answers. `problem` says why it records no answers, or is empty."""

    problem: str = ""


FromRelay = ViewLink | AnswerLink | PingDaemon
ToRelay = RelayedPage | RelayRefusal | DaemonHere

encode: Final = msgspec.json.Encoder().encode
read_from_relay: Final = msgspec.json.Decoder(FromRelay).decode
read_to_relay: Final = msgspec.json.Decoder(ToRelay).decode


def packed(html: str) -> bytes:
    return zlib.compress(html.encode(), level=1)


def unpacked(html: bytes) -> str:
    """Return a page. Raise ValueError if it is damaged or too long."""
    unpacking = zlib.decompressobj()
    try:
        page = unpacking.decompress(html, MAX_PAGE_BYTES)
        if unpacking.eof:
            return page.decode()
    except zlib.error as exc:
        raise ValueError(str(exc)) from None
    raise ValueError("the page is cut off or too long")
