"""A token bucket. It only refills; the caller takes tokens out."""

import math

import msgspec


class TokenBucket(msgspec.Struct, gc=False):
    """The number of tokens at time `t`. A new bucket is full."""

    tokens: float = math.inf
    t: float = 0.0


class Refill:
    """The refill rate and size of a kind of bucket. `wait_s` requires a rate above 0."""

    __slots__ = ("burst", "per_s")

    def __init__(self, per_s: float, burst: float) -> None:
        self.per_s = per_s
        self.burst = burst

    def level(self, bucket: TokenBucket, t: float) -> float:
        """Return the tokens at `t` without changing the bucket."""
        return min(bucket.tokens + (t - bucket.t) * self.per_s, self.burst)

    def fill(self, bucket: TokenBucket, t: float) -> float:
        """Refill a bucket up to `t`; return its tokens."""
        level = bucket.tokens = min(bucket.tokens + (t - bucket.t) * self.per_s, self.burst)
        bucket.t = t
        return level

    def wait_s(self, level: float, wanted: float = 1.0) -> float:
        """Return the seconds until a bucket at this level has the wanted tokens."""
        return (wanted - level) / self.per_s
