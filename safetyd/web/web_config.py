"""The section [web]: the addresses of the web server and of links."""

from collections.abc import Iterator
from ipaddress import IPv4Network, ip_address
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from safetyd.host import THIS_MACHINE, is_this_machine

DEFAULT_PORT: Final = 8787
HostName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9_]([a-z0-9_.-]{0,252})(?![\s\S])",
        extra_json_schema={"description": "a host name in lower case, without a port"},
    ),
]
SHARED: Final = IPv4Network("100.64.0.0/10")  # used by VPNs


class WebConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    # 0: any free port; None: the default, or any free port if that is in use
    port: Annotated[int, Meta(ge=0, le=65535)] | None = None
    # further host names under which clients reach this listener, such as that of its container
    names: tuple[HostName, ...] = ()
    public_url: str = ""  # the beginning of links; empty: the address of this listener
    allow_http: bool = False  # allow links without encryption, in a private network only
    links_host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"  # used only with public_url
    links_port: Annotated[int, Meta(ge=0, le=65535)] = 8788

    @property
    def first_port(self) -> int:
        """Return the port that is tried first."""
        return DEFAULT_PORT if self.port is None else self.port

    @property
    def has_names(self) -> bool:
        """Return True if browsers can reach the listener under names below localhost."""
        return self.host in THIS_MACHINE


def web_problems(config: WebConfig) -> Iterator[str]:
    """Yield errors of `public_url`."""
    if config.public_url:
        yield from url_problems("web.public_url", config.public_url, private=config.allow_http)


def url_problems(setting: str, url: str, *, private: bool) -> Iterator[str]:
    """Yield errors of the base URL of links."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    shown = f"{setting} is {url!r}"
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        yield f"{shown}; it must be an address such as https://safety.example.com"
    elif parts.scheme == "http" and not _near(parts.hostname, private=private):
        yield (
            f"{shown}; http:// is allowed only for this machine or, with allow_http, "
            "for a private network"
        )


def _near(host: str, *, private: bool) -> bool:
    """Return whether a host is this machine or, if `private`, in a private network."""
    return is_this_machine(host) or (private and _is_private(host))


def _is_private(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return False
    shared = address.version == 4 and address in SHARED  # noqa: PLR2004 - of IP
    return address.is_private or shared
