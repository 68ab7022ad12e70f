"""Limits how much each agent may send, before its messages reach the engine.

Anonymous agents on the bus also share one limit, because a single one can use many names. Anonymous
agents of one local user share the account of this user, in which known ones have a reserved share.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from safetyd.agents.sender_accounts import (
    ANONYMOUS_AGENTS,
    Flow,
    KnownAgents,
    Limit,
    of_agent,
)
from safetyd.bus.flood_gate import FloodBounds
from safetyd.core.sender_limits import AGENT_LIMITS, USER_LIMITS
from safetyd.core.token_bucket import Refill, TokenBucket

BURST_S: Final = AGENT_LIMITS.saved_s
BYTES_PER_S: Final = AGENT_LIMITS.message_bytes_per_s
# Added to the size of each message, because its line in the journal is longer than the message.
LINE_BYTES: Final = 768
# Deciding a proposal takes a fraction of a millisecond. The time of one that takes longer than
# this is charged as bytes, so that an agent with such proposals gets a tenth of the daemon's time.
QUICK_S: Final = 0.05
BYTES_PER_BUSY_S: Final = 10 * BYTES_PER_S
DRY_RUNS_PER_MINUTE: Final = AGENT_LIMITS.dry_runs_per_minute
# Names beyond this number share one bucket, which limits the memory.
MAX_BUCKETS: Final = 4096
# An agent that waits for each decision cannot reach this limit, even if it retries immediately. It
# gets at most 1,000 refusals in ten seconds, and the longest proposal counts as four messages.
BOUNDS: Final = FloodBounds(
    flood=10_000.0,
    per_s=500.0,
    piece_bytes=16 * 1024,
    shut="agent %s floods the bus and is shut out for %d s",
    again="agent %s may connect again",
)

_BYTES: Final = Refill(BYTES_PER_S, BYTES_PER_S * BURST_S)
_DRY_RUNS: Final = Refill(DRY_RUNS_PER_MINUTE / 60, DRY_RUNS_PER_MINUTE)


class Allowance(msgspec.Struct, gc=False):
    """How many messages and bytes one agent may still send."""

    messages: TokenBucket
    bytes: TokenBucket


class UserPool:
    """How much the anonymous agents of one local user may still send."""

    def __init__(self, attempts_per_second: int) -> None:
        limits, known = USER_LIMITS, USER_LIMITS.known_agents
        own_s = limits.known_saved_s / 2 / known
        per_s, bytes_per_s = 2 * attempts_per_second, limits.message_bytes_per_s
        self.agents = KnownAgents(known)
        self.messages = Flow(per_s, per_s * limits.saved_s, known, per_s * own_s)
        self.bytes = Flow(bytes_per_s, bytes_per_s * limits.saved_s, known, bytes_per_s * own_s)

    def admit(self, agent: str, cost: float, t: float) -> float:
        """Admit a message and return 0.0, or return how many seconds the agent must wait."""
        known = self.agents.known(agent, t)
        wait = max(self.messages.wait_s(known, 1.0, t), self.bytes.wait_s(known, cost, t))
        if not wait:
            self.messages.take(known, 1.0, t)
            self.bytes.take(known, cost, t)
        return wait


class Intake:
    """Decides which agents may send now.

    `report` is called with the account of a sender that is over its limit. In the methods, `user`
    is the account of the local user whose anonymous agent sends with a hook.
    """

    def __init__(
        self,
        attempts_per_second: int,
        report: Callable[[str, Limit], None] = lambda _account, _limit: None,
    ) -> None:
        self._attempts_per_second = attempts_per_second
        self._messages = Refill(attempts_per_second, attempts_per_second * BURST_S)
        self._report = report
        # Separate, so that an anonymous agent cannot use up the limit of an agent with a key.
        self._keyed: dict[str, Allowance] = {}
        self._keyless: dict[str, Allowance] = {}
        self._all_keyless = TokenBucket()
        self._users: dict[str, UserPool] = {}
        self._dry_runs: dict[str, TokenBucket] = {}
        self.heard = 0  # messages received, admitted or not

    def admit(self, agent: str, size: int, t: float, *, keyless: bool, user: str = "") -> float:
        """Admit a message and return 0.0, or return how many seconds the agent must wait."""
        self.heard += 1
        messages = self._messages
        if not messages.per_s:
            return 0.0
        cost = size + LINE_BYTES
        if user:
            wait = self._pool(user).admit(agent, cost, t)
            if wait > 0:
                self._report(user, "messages")
            return wait
        allowance = _of(self._keyless if keyless else self._keyed, agent)
        wait = max(
            messages.wait_s(messages.fill(allowance.messages, t)),
            _BYTES.wait_s(_BYTES.fill(allowance.bytes, t), cost),
        )
        if keyless:
            wait = max(wait, _BYTES.wait_s(_BYTES.fill(self._all_keyless, t), cost))
        if wait > 0:
            account = ANONYMOUS_AGENTS if keyless else of_agent(agent).account
            self._report(account, "messages")
            return wait
        allowance.messages.tokens -= 1
        allowance.bytes.tokens -= cost
        if keyless:
            self._all_keyless.tokens -= cost
        return 0.0

    def charge(self, agent: str, busy_s: float, *, keyless: bool, user: str = "") -> None:
        """Charge the time that the decision on an admitted proposal took."""
        if busy_s <= QUICK_S or not self._messages.per_s:
            return
        cost = busy_s * BYTES_PER_BUSY_S
        if user:
            pool = self._pool(user)
            pool.bytes.charge(pool.agents.name(agent), cost)
            return
        _of(self._keyless if keyless else self._keyed, agent).bytes.tokens -= cost
        if keyless:
            self._all_keyless.tokens -= cost

    def overdrawn_s(self, agent: str, t: float, *, keyless: bool, user: str = "") -> float:
        """Return the seconds until an agent that used up its allowance may propose, or 0.0."""
        if user:
            pool = self._pool(user)
            return pool.bytes.overdrawn_s(pool.agents.name(agent), t)
        level = _BYTES.fill(_of(self._keyless if keyless else self._keyed, agent).bytes, t)
        if keyless:
            level = min(level, _BYTES.fill(self._all_keyless, t))
        return max(0.0, _BYTES.wait_s(level, 0.0))

    def admit_dry_run(self, agent: str, t: float) -> float:
        """Admit a dry run and return 0.0, or return how many seconds the agent must wait."""
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

    def _pool(self, user: str) -> UserPool:
        if user not in self._users and len(self._users) >= MAX_BUCKETS:
            user = ""
        return self._users.setdefault(user, UserPool(self._attempts_per_second))


def _of(allowances: dict[str, Allowance], agent: str) -> Allowance:
    allowance = allowances.get(agent)
    if allowance is None:
        if len(allowances) >= MAX_BUCKETS:
            agent = ""
        allowance = allowances.setdefault(agent, Allowance(TokenBucket(), TokenBucket()))
    return allowance
