"""Addresses in the words of a proposal, however they are spelled."""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote, urlsplit

from safetyd.core.text.folding import forms

_BEGIN = re.compile(r"[a-z][a-z0-9+.-]*:[/\\]*(?=[^/\\])", re.IGNORECASE)
_AROUND = "'\"`<>(){},;"
_BYTE = range(256)


def addresses(said: Iterable[str]) -> Iterator[str]:
    """Yield every word that may be an address, as `scheme://host:port/path`.

    Browsers also accept backslashes, other numbers of slashes, and escaped characters.
    """
    for text in forms(tuple(said)):
        for word in unquote(text).split():
            bare = word.strip(_AROUND).replace("\\", "/")
            begun = _BEGIN.match(bare)
            if begun and "/" in begun[0]:
                scheme = begun[0].partition(":")[0].lower()
                root = "/" if scheme == "file" else ""
                bare = f"{scheme}://{root}{bare[begun.end() :]}"
            yield bare


def site_of(url: str) -> str:
    """Return the host of a URL, with its port; or an empty string if it has none."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return ""


def ipv4(host: str) -> str:
    """Return a host as a dotted IPv4 address if it is one in another spelling, else unchanged.

    Other spellings are 2852039166, 0xa9fea9fe, 169.254.43518 and ::ffff:169.254.169.254.
    """
    name = host.rstrip(".").removeprefix("::ffff:")
    try:
        *first, last = [int(part, _base(part)) for part in name.split(".")]
    except ValueError:
        return name
    left = 4 - len(first)
    if left < 1 or any(part not in _BYTE for part in first) or not 0 <= last < 256**left:
        return name
    return ".".join(map(str, (*first, *last.to_bytes(left, "big"))))


def _base(part: str) -> int:
    if part[:2].lower() == "0x":
        return 16
    return 8 if len(part) > 1 and part[0] == "0" else 10
