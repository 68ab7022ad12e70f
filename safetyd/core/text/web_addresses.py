"""Addresses in the words of a proposal, however they are spelled."""

import functools
import re
from collections.abc import Iterable, Iterator
from ipaddress import AddressValueError, IPv4Address, IPv6Address, IPv6Network
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from safetyd.core.text.folding import fold, forms

MAX_NAME: Final = 255  # characters of a host name
MAX_DIGITS: Final = 5  # of a port

# Browsers accept any number of slashes after these schemes.
_BEGIN = re.compile(r"(https?|wss?|ftp|file):[/\\]*(?=[^/\\])", re.IGNORECASE)
_AROUND = "'\"`<>(){},;"
_BYTE = range(256)
_DOTS: Final = str.maketrans("\u3002\uff0e\uff61", "...")  # full stops of domain names in Asia
_part = re.compile(r"0x[0-9a-f]*|[0-9]+", re.ASCII).fullmatch
# Services on the internet whose names contain the address that they mean.
_EMBEDDED = re.compile(
    r"(?:.*[.-])?((?:\d{1,3}[.-]){3}\d{1,3}|[0-9a-f]{8})\.(?:nip|sslip|xip)\.io", re.ASCII
).fullmatch
_LOCAL: Final = frozenset({"localhost", "localhost.localdomain", "host.docker.internal"})
# Names on the internet that mean this machine. Their owners could change that.
_leads_here = re.compile(r"(?:.+\.)?(?:localtest\.me|lvh\.me|vcap\.me|lacolhost\.com)").fullmatch
# Metadata services, from which cloud machines get their credentials, besides link-local addresses.
_METADATA: Final = frozenset(
    {
        *("metadata", "metadata.google.internal", "metadata.goog", "metadata.azure.internal"),
        *("metadata.azure.com", "metadata.tencentyun.com", "metadata.packet.net"),
        *("metadata.platformequinix.com", "metadata.cloud.ibm.com", "api.metadata.cloud.ibm.com"),
        *("metadata.internal", "instance-data", "instance-data.ec2.internal", "rancher-metadata"),
        *("100.100.100.200", "168.63.129.16", "192.0.0.192"),
        *("fd00:ec2::254", "fd00:ec2::23", "fd00:42::42", "fd20:ce::254"),
    }
)
_LINK_LOCAL: Final = ("169.254.", "fe80:")
# Prefixes of IPv6 addresses that end with an IPv4 address.
_TRANSLATED: Final = tuple(
    map(IPv6Network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96"))
)


class Address(NamedTuple):
    """An address in one spelling."""

    text: str  # as `scheme://host:port/path`
    host: str  # in lower case; an IP address in its shortest form, without brackets
    port: int | None = None

    @property
    def is_metadata(self) -> bool:
        return is_metadata_host(self.host)


def addresses(said: Iterable[str]) -> Iterator[Address]:
    """Yield every word that may be an address.

    Browsers also accept backslashes, other numbers of slashes, and escaped characters.
    """
    for text in forms(tuple(said)):
        for word in unquote(text).split():
            yield address_of(word.strip(_AROUND))


def address_of(word: str) -> Address:
    """Return a word as an address. Without a scheme, it is `host`, `host:port` or `host/path`."""
    bare = word.replace("\\", "/")
    begun = _BEGIN.match(bare)
    if begun:
        scheme = begun[1].lower()
        root = "/" if scheme == "file" else ""
        bare = f"{scheme}://{root}{bare[begun.end() :]}"
    host, port = _host_and_port(bare)
    return Address(bare, canonical(host), port)


def _host_and_port(address: str) -> tuple[str, int | None]:
    rest = address.partition("://")[2] or address
    for end in "/?#":
        rest = rest.partition(end)[0]
    name = rest.rpartition("@")[2]
    if name.startswith("["):
        host, _, after = name[1:].partition("]")
    elif name.count(":") > 1:
        host, after = name, ""
    else:
        host, colon, after = name.partition(":")
        after = colon + after
    return host, port_of(after[1:])


def port_of(word: str) -> int | None:
    """Return a word as the number of a port, or None if it is something else."""
    is_number = word.isascii() and word.isdecimal() and len(word) <= MAX_DIGITS
    return int(word) if is_number else None


def site_of(url: str) -> str:
    """Return the host of a URL, with its port; or an empty string if it has none."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return ""


@functools.lru_cache(maxsize=1024)
def canonical(host: str) -> str:
    """Return the one spelling of a host that all spellings of it share.

    Programs accept 2852039166, 0xa9fea9fe, 169.254.43518, ::ffff:169.254.169.254, full-width
    digits and the full stops of Asian scripts, all for 169.254.169.254.
    """
    name = host[:MAX_NAME]
    if not name.isascii():
        name = fold(name.translate(_DOTS))
    name = unquote(name).lower().rstrip(".")
    if ":" in name:
        return _ipv6(name)
    if found := _EMBEDDED(name):
        return _embedded(found[1])
    return _ipv4(name)


def _ipv6(name: str) -> str:
    try:
        address = IPv6Address(name.partition("%")[0])
    except AddressValueError:
        return name
    inner = address.ipv4_mapped or address.sixtofour
    last = IPv4Address(int(address) & 0xFFFFFFFF)
    translated = any(address in network for network in _TRANSLATED) and int(last) > 1
    return str(inner or (last if translated else address))


def _embedded(said: str) -> str:
    if "." not in said and "-" not in said:
        return str(IPv4Address(int(said, 16)))
    return _ipv4(said.replace("-", "."))


def _ipv4(name: str) -> str:
    parts = name.split(".")
    if len(parts) > 4 or not all(map(_part, parts)):  # noqa: PLR2004 - of an IPv4 address
        return name
    try:
        *first, last = [_number(part) for part in parts]
    except ValueError:
        return name
    left = 4 - len(first)
    if any(part not in _BYTE for part in first) or not 0 <= last < 256**left:
        return name
    return ".".join(map(str, (*first, *last.to_bytes(left, "big"))))


def _number(part: str) -> int:
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    return int(part, 8 if len(part) > 1 and part[0] == "0" else 10)


def is_local_host(host: str) -> bool:
    """Return True if a canonical host certainly means this machine."""
    return host in _LOCAL or host.endswith(".localhost") or is_loopback(host)


def is_loopback(host: str) -> bool:
    """Return True if a canonical host is an IP address of this machine itself."""
    return host in {"::1", "::", "0.0.0.0"} or (  # noqa: S104 - compared, not listened on
        host.startswith("127.") and _ipv4(host) == host and host.count(".") == 3  # noqa: PLR2004
    )


def may_lead_here(host: str) -> bool:
    """Return True if a canonical host means this machine, or a public name that leads to it."""
    return is_local_host(host) or bool(_leads_here(host))


def is_metadata_host(host: str) -> bool:
    """Return True for the metadata service of a cloud, which hands out credentials."""
    return host in _METADATA or host.startswith(_LINK_LOCAL)
