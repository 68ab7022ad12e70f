"""Network addresses in commands: whether they name this machine or another."""

from safetyd.core.shell.reading import HOLE
from safetyd.core.shell.words import KNOWN, NETWORK, VARIABLE, Word
from safetyd.core.text.web_addresses import address_of, is_local_host, is_metadata_host


def scheme(address: str) -> str:
    """Return `https` for `https://host`, or an empty string."""
    return address.partition("://")[0].lower() if "://" in address else ""


def is_address(word: str) -> bool:
    """Return True for an HTTP or WebSocket URL."""
    return scheme(word) in {"http", "https", "ws", "wss"}


def host(address: str) -> str:
    """Return the host in a URL, `user@host:port` or `host`, in its one spelling."""
    return address_of(address).host


def is_local(address: str) -> bool:
    """Return True if a host name means this machine."""
    name = host(address)
    return "\\" not in address and HOLE not in name and is_local_host(name)


def is_remote(word: Word) -> bool:
    """Return True for `host:path`, `s3://bucket/key` and other addresses."""
    before, colon, _ = word.text.partition(":")
    return bool(colon) and "/" not in before


def is_metadata(address: str) -> bool:
    """Return True for the metadata service of a cloud, which hands out credentials."""
    return is_metadata_host(host(address))


def leaks_output(word: Word) -> bool:
    """Return True if a word would send the output of a local command to another machine."""
    return not word.known and word.origin not in {KNOWN, VARIABLE, NETWORK}
