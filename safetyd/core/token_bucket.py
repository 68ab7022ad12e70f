"""A token bucket: so much at once, then so much a second. The caller takes what is there."""

import math

import msgspec


class TokenBucket(msgspec.Struct, gc=False):
    """What was left at `t`. A bucket that nobody took from is full, however large it is."""

    tokens: float = math.inf
    t: float = 0.0


class Refill:
    """How buckets of one kind fill; it must not be at a rate of 0 when somebody waits."""

    __slots__ = ("burst", "per_s")

    def __init__(self, per_s: float, burst: float) -> None:
        self.per_s = per_s
        self.burst = burst

    def level(self, bucket: TokenBucket, t: float) -> float:
        """Return what a bucket holds at `t`, and change nothing."""
        return min(bucket.tokens + (t - bucket.t) * self.per_s, self.burst)

    def fill(self, bucket: TokenBucket, t: float) -> float:
        """Bring a bucket up to `t`; return what it holds."""
        level = bucket.tokens = min(bucket.tokens + (t - bucket.t) * self.per_s, self.burst)
        bucket.t = t
        return level

    def wait_s(self, level: float, wanted: float = 1.0) -> float:
        """Return in how many seconds a bucket at this level holds as much as is wanted."""
        return (wanted - level) / self.per_s
