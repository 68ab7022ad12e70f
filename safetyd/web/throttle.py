"""Rate limits of links: by address, by token, and for unknown tokens."""

from collections.abc import Callable, Hashable
from ipaddress import ip_address, ip_network
from typing import Final

from safetyd.core.token_bucket import Refill, TokenBucket

MINUTE_S: Final = 60.0
MAX_KNOWN: Final = 10_000  # clients that are counted; the least recent one is dropped
REQUESTS: Final = 30  # requests of one address per minute
LOOKS: Final = 60  # views of one token per minute
ANSWERS: Final = 10  # answers on one token per minute
STRANGERS: Final = 60  # unknown tokens per minute, from all clients


class Allowance:
    """A rate limit for each client, in attempts per minute. A client may use them all at once."""

    def __init__(self, most: int, now: Callable[[], float]) -> None:
        self._refill = Refill(most / MINUTE_S, most)
        self._now = now
        self._left: dict[Hashable, TokenBucket] = {}

    def take(self, who: Hashable = None) -> float:
        """Use one attempt and return 0.0, or return the seconds until one is available."""
        bucket = self._left[who] = self._left.pop(who, TokenBucket())
        if len(self._left) > MAX_KNOWN:
            del self._left[next(iter(self._left))]
        level = self._refill.fill(bucket, self._now())
        if level < 1.0:
            return self._refill.wait_s(level)
        bucket.tokens -= 1.0
        return 0.0

    def wait_s(self, who: Hashable = None) -> float:
        """Return the seconds until an attempt is available, without using one."""
        bucket = self._left.get(who)
        level = 1.0 if bucket is None else self._refill.level(bucket, self._now())
        return 0.0 if level >= 1.0 else self._refill.wait_s(level)


class Throttle:
    """Rate limits of decision links. Each method counts an attempt and returns the wait in s."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._requests = Allowance(REQUESTS, now)
        self._looks = Allowance(LOOKS, now)
        self._answers = Allowance(ANSWERS, now)
        self._strangers = Allowance(STRANGERS, now)

    def request(self, address: str) -> float:
        """Count a request by address, or by network for IPv6, where a client has many addresses."""
        return self._requests.take(network_of(address))

    def look(self, token_id: bytes) -> float:
        """Count a request for one token, from any client."""
        return self._looks.take(token_id)

    def answer(self, token_id: bytes) -> float:
        """Count one answer given with a token."""
        return self._answers.take(token_id)

    def stranger(self) -> float:
        """Count an unknown token."""
        return self._strangers.take()


def network_of(address: str) -> str:
    """Return an IPv4 address, or the network of an IPv6 address."""
    try:
        known = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if known.version == 4:  # noqa: PLR2004 - of IP
        return address
    return str(ip_network((known, 64), strict=False))
