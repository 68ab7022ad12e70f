"""The bound before the engine: how much each agent may say, whatever the answer would be.

Keyless agents also share one allowance, because nothing stops one of them from using many names.
"""

from typing import Final

import msgspec

from safetyd.bus.flood_gate import FloodBounds
from safetyd.core.token_bucket import Refill, TokenBucket

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

_BYTES: Final = Refill(BYTES_PER_S, BYTES_PER_S * BURST_S)
_DRY_RUNS: Final = Refill(DRY_RUNS_PER_MINUTE / 60, DRY_RUNS_PER_MINUTE)


class Allowance(msgspec.Struct, gc=False):
    """What one agent may still say: so many messages, of so many bytes."""

    messages: TokenBucket
    bytes: TokenBucket


class Intake:
    """Who may be heard now."""

    def __init__(self, attempts_per_second: int) -> None:
        self._messages = Refill(attempts_per_second, attempts_per_second * BURST_S)
        # Apart, so that no keyless agent spends what belongs to a name that has a key.
        self._keyed: dict[str, Allowance] = {}
        self._keyless: dict[str, Allowance] = {}
        self._all_keyless = TokenBucket()
        self._dry_runs: dict[str, TokenBucket] = {}
        self.heard = 0  # messages that came, admitted or not

    def admit(self, agent: str, size: int, t: float, *, keyless: bool) -> float:
        """Take what a message costs and return 0.0, or return the seconds until it would fit."""
        self.heard += 1
        messages = self._messages
        if not messages.per_s:
            return 0.0
        cost = size + LINE_BYTES
        allowance = _of(self._keyless if keyless else self._keyed, agent)
        wait = max(
            messages.wait_s(messages.fill(allowance.messages, t)),
            _BYTES.wait_s(_BYTES.fill(allowance.bytes, t), cost),
        )
        if keyless:
            wait = max(wait, _BYTES.wait_s(_BYTES.fill(self._all_keyless, t), cost))
        if wait > 0:
            return wait
        allowance.messages.tokens -= 1
        allowance.bytes.tokens -= cost
        if keyless:
            self._all_keyless.tokens -= cost
        return 0.0

    def admit_dry_run(self, agent: str, t: float) -> float:
        """Like `admit`, for the allowance of dry runs."""
        if not self._messages.per_s:
            return 0.0
        bucket = self._dry_runs.get(agent)
        if bucket is None:
            if len(self._dry_runs) >= MAX_BUCKETS:
                self._dry_runs.clear()
            bucket = self._dry_runs[agent] = TokenBucket()
        level = _DRY_RUNS.fill(bucket, t)
        if level < 1:
            return _DRY_RUNS.wait_s(level)
        bucket.tokens -= 1
        return 0.0


def _of(allowances: dict[str, Allowance], agent: str) -> Allowance:
    allowance = allowances.get(agent)
    if allowance is None:
        if len(allowances) >= MAX_BUCKETS:
            agent = ""
        allowance = allowances.setdefault(agent, Allowance(TokenBucket(), TokenBucket()))
    return allowance
