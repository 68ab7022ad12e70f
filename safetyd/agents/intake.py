"""The bound before the engine: how much each agent may say, whatever the answer would be.

Keyless agents also share one allowance, because nothing stops one of them from using many names.
"""

from typing import Final

import msgspec

from safetyd.bus.flood_gate import FloodBounds

BURST_S: Final = 4.0
BYTES_PER_S: Final = 256 * 1024
# A short proposal makes a longer journal line; it is charged for that too.
LINE_BYTES: Final = 768
DRY_RUNS_PER_MINUTE: Final = 30
# Names beyond this share a bucket, so that inventing names costs no memory.
MAX_BUCKETS: Final = 4096
# No agent that waits for its decisions gets there, though it asks again at once: it hears of 1,000
# refusals in ten seconds at the most, and the longest proposal is four pieces.
BOUNDS: Final = FloodBounds(
    flood=10_000.0,
    per_s=500.0,
    piece_bytes=16 * 1024,
    shut="agent %s floods the bus and is shut out for %d s",
    again="agent %s is let in again",
)


class Bucket(msgspec.Struct, gc=False):
    tokens: float
    bytes: float
    filled_t: float


class Intake:
    """Who may be heard now."""

    def __init__(self, attempts_per_second: int) -> None:
        self._per_s = attempts_per_second
        # Apart, so that no keyless agent spends what belongs to a name that has a key.
        self._keyed: dict[str, Bucket] = {}
        self._keyless: dict[str, Bucket] = {}
        self._all_keyless = Bucket(0.0, BYTES_PER_S * BURST_S, 0.0)
        self._dry_runs: dict[str, Bucket] = {}

    def admit(self, agent: str, size: int, t: float, *, keyless: bool) -> float:
        """Take what a message costs and return 0.0, or return the seconds until it would fit."""
        if not self._per_s:
            return 0.0
        cost = size + LINE_BYTES
        bucket = self._bucket(self._keyless if keyless else self._keyed, agent, t)
        wait = self._missing(bucket, cost)
        if keyless:
            self._fill(self._all_keyless, t)
            wait = max(wait, (cost - self._all_keyless.bytes) / BYTES_PER_S)
        if wait > 0:
            return wait
        bucket.tokens -= 1
        bucket.bytes -= cost
        if keyless:
            self._all_keyless.bytes -= cost
        return 0.0

    def admit_dry_run(self, agent: str, t: float) -> float:
        """Like `admit`, for the allowance of dry runs."""
        if not self._per_s:
            return 0.0
        per_s = DRY_RUNS_PER_MINUTE / 60
        bucket = self._dry_runs.get(agent)
        if bucket is None:
            if len(self._dry_runs) >= MAX_BUCKETS:
                self._dry_runs.clear()
            bucket = self._dry_runs[agent] = Bucket(float(DRY_RUNS_PER_MINUTE), 0.0, t)
        bucket.tokens = min(
            bucket.tokens + (t - bucket.filled_t) * per_s, float(DRY_RUNS_PER_MINUTE)
        )
        bucket.filled_t = t
        if bucket.tokens < 1:
            return (1 - bucket.tokens) / per_s
        bucket.tokens -= 1
        return 0.0

    def _bucket(self, buckets: dict[str, Bucket], agent: str, t: float) -> Bucket:
        bucket = buckets.get(agent)
        if bucket is None:
            if len(buckets) >= MAX_BUCKETS:
                agent = ""
            bucket = buckets.setdefault(
                agent, Bucket(self._per_s * BURST_S, BYTES_PER_S * BURST_S, t)
            )
        self._fill(bucket, t)
        return bucket

    def _fill(self, bucket: Bucket, t: float) -> None:
        gone = t - bucket.filled_t
        bucket.tokens = min(bucket.tokens + gone * self._per_s, self._per_s * BURST_S)
        bucket.bytes = min(bucket.bytes + gone * BYTES_PER_S, BYTES_PER_S * BURST_S)
        bucket.filled_t = t

    def _missing(self, bucket: Bucket, cost: int) -> float:
        return max((1 - bucket.tokens) / self._per_s, (cost - bucket.bytes) / BYTES_PER_S)
