"""Network addresses in commands: whether they name this machine or another."""

import re
from typing import Final

from safetyd.core.shell.reading import HOLE
from safetyd.core.shell.words import KNOWN, NETWORK, VARIABLE, Word
from safetyd.core.text.web_addresses import ipv4

_LOCAL: Final = frozenset(
    {"localhost", "::1", "0.0.0.0", "::", "host.docker.internal", "localhost.localdomain"}  # noqa: S104
)
# Metadata services, from which cloud machines get their credentials.
_METADATA: Final = frozenset(
    {"169.254.169.254", "169.254.170.2", "100.100.100.200", "metadata.google.internal"}
    | {"metadata", "fd00:ec2::254", "metadata.azure.internal", "169.254.169.123"}
)
_LINK_LOCAL: Final = ("169.254.", "fe80:")
_LOOPBACK: Final = re.compile(r"127(\.\d{1,3}){0,3}")


def scheme(address: str) -> str:
    """Return `https` for `https://host`, or an empty string."""
    return address.partition("://")[0].lower() if "://" in address else ""


def is_address(word: str) -> bool:
    """Return True for an HTTP or WebSocket URL."""
    return scheme(word) in {"http", "https", "ws", "wss"}


def host(address: str) -> str:
    """Return the host in a URL, `user@host:port` or `host`."""
    rest = address.partition("://")[2] or address
    for end in "/?#":
        rest = rest.partition(end)[0]
    name = rest.rpartition("@")[2]
    if name.startswith("["):
        return name[1:].partition("]")[0].lower()
    return (name if name.count(":") > 1 else name.partition(":")[0]).lower()


def is_local(address: str) -> bool:
    """Return True if a host name means this machine."""
    name = ipv4(host(address))
    if "\\" in address or HOLE in name:
        return False
    return name in _LOCAL or name.endswith(".localhost") or bool(_LOOPBACK.fullmatch(name))


def is_remote(word: Word) -> bool:
    """Return True for `host:path`, `s3://bucket/key` and other addresses."""
    before, colon, _ = word.text.partition(":")
    return bool(colon) and "/" not in before


def is_metadata(address: str) -> bool:
    """Return True for the metadata service of a cloud, which hands out credentials."""
    name = ipv4(host(address))
    return name in _METADATA or name.startswith(_LINK_LOCAL)


def leaks_output(word: Word) -> bool:
    """Return True if a word would send the output of a local command to another machine."""
    return not word.known and word.origin not in {KNOWN, VARIABLE, NETWORK}
