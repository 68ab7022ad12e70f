"""Which machine an address names: this one, or another."""

import re
from typing import Final

from safetyd.core.shell.reading import HOLE
from safetyd.core.shell.words import KNOWN, NETWORK, VARIABLE, Word

_LOCAL: Final = frozenset(
    {"localhost", "::1", "0.0.0.0", "::", "host.docker.internal", "localhost.localdomain"}  # noqa: S104
)
# Where a machine of a cloud asks for its own keys.
_METADATA: Final = frozenset(
    {"169.254.169.254", "169.254.170.2", "100.100.100.200", "metadata.google.internal"}
    | {"metadata", "fd00:ec2::254", "metadata.azure.internal", "169.254.169.123"}
)
_LOOPBACK: Final = re.compile(r"127(\.\d{1,3}){0,3}")


def scheme(address: str) -> str:
    """Return `https` of `https://host`; empty where none is named."""
    return address.partition("://")[0].lower() if "://" in address else ""


def is_address(word: str) -> bool:
    """Say whether a word is an address of a service."""
    return scheme(word) in {"http", "https", "ws", "wss"}


def host(address: str) -> str:
    """Return the machine that a URL, `user@host:port` or `host` names."""
    rest = address.partition("://")[2] or address
    for end in "/?#":
        rest = rest.partition(end)[0]
    name = rest.rpartition("@")[2]
    if name.startswith("["):
        return name[1:].partition("]")[0].lower()
    return (name if name.count(":") > 1 else name.partition(":")[0]).lower()


def is_local(address: str) -> bool:
    """Say whether an address is this machine's, by its name alone."""
    name = host(address)
    if "\\" in address or HOLE in name:
        return False
    return name in _LOCAL or name.endswith(".localhost") or bool(_LOOPBACK.fullmatch(name))


def is_remote(word: Word) -> bool:
    """Return True for `host:path`, `s3://bucket/key` and other addresses."""
    before, colon, _ = word.text.partition(":")
    return bool(colon) and "/" not in before


def is_metadata(address: str) -> bool:
    """Say whether an address is the service that tells a machine in a cloud its keys."""
    return host(address) in _METADATA


def tells(word: Word) -> bool:
    """Say whether a word would tell another machine what a command here printed."""
    return not word.known and word.origin not in {KNOWN, VARIABLE, NETWORK}
