"""Mail addresses without display names."""

import re
from email.utils import parseaddr

is_address = re.compile(r"[!#-'*+\-./0-9=?A-Z^-~]+@[A-Za-z0-9.\[\]:-]+").fullmatch


def bare(address: str) -> str | None:
    """Return an address without a display name, or None if it is not valid."""
    _, found = parseaddr(address)
    return found if is_address(found) else None


def is_same_address(one: str, other: str) -> bool:
    """Compare two addresses; only domains ignore case."""
    (name, _, domain), (name2, _, domain2) = one.rpartition("@"), other.rpartition("@")
    return bool(name and domain) and name == name2 and domain.lower() == domain2.lower()
