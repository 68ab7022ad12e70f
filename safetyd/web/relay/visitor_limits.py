"""Limits the visitors of a relay, so that guesses do not use up what the daemon grants the relay.

Only the daemon knows which tokens are valid. So tokens that have not opened a page yet share a
limit, and an address that tries invalid ones has to wait.
"""

import hashlib
from collections.abc import Callable
from typing import Final

from safetyd.web.throttle import REQUESTS, Allowance, network_of

FIRST_LOOKS: Final = 600  # tokens per minute that have not opened a page yet
MAX_OPENED: Final = 10_000  # tokens that opened a page


class VisitorLimits:
    def __init__(self, now: Callable[[], float]) -> None:
        self._invalid = Allowance(REQUESTS, now)
        self._first = Allowance(FIRST_LOOKS, now)
        self._opened: dict[bytes, None] = {}  # hashes of tokens, the oldest first

    def wait_s(self, address: str, token: str) -> float:
        """Count a request. Return 0.0, or the seconds until it would be passed on."""
        if _hash(token) in self._opened:
            return 0.0
        return self._invalid.wait_s(network_of(address)) or self._first.take()

    def opened_page(self, token: str) -> None:
        """Record that a token is valid. From now on, it does not wait for others."""
        self._opened.pop(hashed := _hash(token), None)
        self._opened[hashed] = None
        if len(self._opened) > MAX_OPENED:
            del self._opened[next(iter(self._opened))]

    def opened_nothing(self, address: str) -> None:
        """Count an invalid token."""
        self._invalid.take(network_of(address))


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()
