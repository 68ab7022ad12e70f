"""Rate limits: token buckets for all agents together, for each agent and for each model.

A proposal takes a token at each level that applies, or none at all. When the common bucket runs
low, agents that used their share in the last minute wait. Anonymous names can be invented, so as
soon as any agent has a key, half of every shared bucket is reserved for agents with keys.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from safetyd.core.action_types import Kind
from safetyd.core.actor import Guard, hearing, on
from safetyd.core.anonymous_pool import Others
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import NameForgotten
from safetyd.core.guards.known_words import MAX_COMMON
from safetyd.core.guards.rate import sliding_window
from safetyd.core.guards.rate.rate_limits import (
    BucketConfig,
    DevelopmentRates,
    ModeRates,
    ProductionRates,
)
from safetyd.core.messages.verdict import ALLOWED, BLOCK, Severity, Verdict, after
from safetyd.core.token_bucket import Refill, TokenBucket

LOW: Final = 5  # when 1/5 of the common burst is left, each agent is limited to its share
UNFAIR_WAIT_S: Final = 1.0
MORE_S: Final = 0.05  # added to a wait, so that the level is above the limit when the wait ends

Missing = tuple[float, Verdict]  # seconds to wait if nobody takes a token, and the verdict


class RateConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    attempts_per_second: Annotated[int, Meta(ge=0, le=100_000)] = 50  # 0: off
    development: DevelopmentRates = DevelopmentRates()
    production: ProductionRates = ProductionRates()
    hybrid: ProductionRates = ProductionRates()

    def of(self, mode: str) -> ModeRates:
        modes = {"development": self.development, "hybrid": self.hybrid}
        return modes.get(mode, self.production)


class Taker(TokenBucket, gc=False):
    """An agent's bucket at its last proposal, and the tokens that it took in the last minute."""

    taken: sliding_window.Ring = msgspec.field(default_factory=sliding_window.empty)
    keyless: bool = False
    # True: its last proposal came from the hook of a coding agent. Older checkpoints have none.
    host: bool | msgspec.UnsetType = msgspec.UNSET


class RateState(msgspec.Struct):
    common: TokenBucket = msgspec.field(default_factory=TokenBucket)
    agents: dict[str, Taker] = {}
    models: dict[str, TokenBucket] = {}  # the keys guard limits their number
    # Agents that proposed, by slot: with a key, and anonymous.
    proposing: sliding_window.Ring = msgspec.field(default_factory=sliding_window.empty)
    keyless: sliding_window.Ring = msgspec.field(default_factory=sliding_window.empty)

    def ring(self, *, keyless: bool) -> sliding_window.Ring:
        return self.keyless if keyless else self.proposing


class BucketLevel(NamedTuple):
    """The tokens in a bucket, its capacity, and its refill rate."""

    tokens: float
    burst: float
    per_s: float

    @property
    def full_s(self) -> float:
        """Return the seconds until it is full if nobody takes a token."""
        return (self.burst - self.tokens) / self.per_s

    def __str__(self) -> str:
        return f"{int(self.tokens)} of {self.burst:g}"


class RateReserve(NamedTuple):
    """Tokens in the common and in a model's bucket that are reserved for agents with keys."""

    common: float
    model: float


NO_RESERVE: Final = RateReserve(0.0, 0.0)


class Limit(Refill):
    """The configured capacity and refill rate of a bucket."""

    __slots__ = ("tokens_per_minute",)

    def __init__(self, config: BucketConfig) -> None:
        super().__init__(config.tokens_per_minute / 60.0, float(config.burst))
        self.tokens_per_minute = config.tokens_per_minute

    def now(self, bucket: TokenBucket, t: float) -> BucketLevel:
        return BucketLevel(self.level(bucket, t), self.burst, self.per_s)

    def take(self, bucket: TokenBucket, t: float) -> None:
        """Take a token at `t`, or the rest if less than one is left."""
        level = self.fill(bucket, t)
        bucket.tokens = level - 1.0 if level > 1.0 else 0.0


class RateLimiter(Guard):
    """Block proposals that exceed a rate limit.

    `overrides` are buckets by exact agent name. `others` returns whether agents with keys are
    known, for whom tokens are reserved.
    """

    name = "rate"
    _state: RateState

    def __init__(
        self,
        config: RateConfig,
        mode: str,
        overrides: Mapping[str, BucketConfig],
        others: Others,
        of_hosts: BucketConfig | None = None,
    ) -> None:
        rates = config.of(mode)
        self._common, self._model = Limit(rates.global_), Limit(rates.model)
        self._agent = Limit(rates.agent)
        self._of_hosts = self._agent if of_hosts is None else Limit(of_hosts)
        self._overrides = {agent: Limit(own) for agent, own in overrides.items()}
        self._low = self._common.burst / LOW
        self._others = others
        self._reserve = RateReserve(self._common.burst // 2, self._model.burst // 2)
        self._state = RateState()
        self.hears = hearing(on(Decided, self._decided), on(NameForgotten, self._forgotten))

    @property
    def agents(self) -> tuple[str, ...]:
        """Return the agents that have a bucket."""
        return tuple(self._state.agents)

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(self._state.models)

    def common_bucket(self, t: float) -> BucketLevel:
        return self._common.now(self._state.common, t)

    def keyless_bucket(self, t: float) -> BucketLevel | None:
        """Return the part of the common bucket for anonymous agents, if a part is reserved."""
        if not self._others(keyless=True):
            return None
        common, kept = self.common_bucket(t), self._reserve.common
        return BucketLevel(max(common.tokens - kept, 0.0), common.burst - kept, common.per_s)

    def agent_bucket(self, agent: str, t: float) -> BucketLevel:
        taker = self._state.agents.get(agent)
        limit = self._limit(agent, host=taker is not None and bool(taker.host))
        return limit.now(_FULL if taker is None else taker, t)

    def _limit(self, agent: str, *, host: bool) -> Limit:
        return self._overrides.get(agent) or (self._of_hosts if host else self._agent)

    def model_bucket(self, model: str, t: float) -> BucketLevel:
        return self._model.now(self._state.models.get(model, _FULL), t)

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:  # noqa: ARG002
        agent, model, t = proposed.agent, proposed.proposal.model, proposed.t
        # Unrolled for speed: this runs for every proposal.
        common, own = self._state.common, self._state.agents.get(agent, _FULL)
        limit = self._limit(agent, host=bool(proposed.host))
        low, kept = self._low, NO_RESERVE
        if proposed.keyless and self._others(keyless=True):
            kept = self._reserve
            low = self._low_above(kept)
        if (
            common.tokens + (t - common.t) * self._common.per_s > low
            and own.tokens + (t - own.t) * limit.per_s >= 1.0
            and (
                not model
                or self._model.level(self._state.models.get(model, _FULL), t) >= kept.model + 1.0
            )
        ):
            return ALLOWED
        missing = [*self._empty(proposed, kept), *self._unfair(proposed, kept)]
        return _longest(missing) if missing else ALLOWED

    def check_again(self, proposed: Proposed, kind: Kind) -> Verdict:  # noqa: ARG002
        return ALLOWED  # the tokens were taken when the action was proposed

    def now(self, decided: Decided, moment: Moment) -> str:
        agent, model, t = decided.agent, decided.proposal.model, moment.t
        said = [f"agent {self.agent_bucket(agent, t)} tokens"]
        if model:
            said.append(f"model {self.model_bucket(model, t)}")
        return ", ".join((*said, f"all {self.common_bucket(t)}"))

    def _decided(self, event: Decided) -> None:
        if event.verdicts and event.stranger:
            return
        agent, t = event.agent, event.t
        taker, slot = self._state.agents.get(agent), sliding_window.slot_at(t)
        if taker is None or sliding_window.slot_at(taker.t) != slot:
            taker = self._mark(event, slot)
        taker.host = True if event.host else msgspec.UNSET
        own = self._limit(agent, host=bool(event.host))
        if event.decision is BLOCK:
            self._common.fill(self._state.common, t)
            own.fill(taker, t)
            return
        self._common.take(self._state.common, t)
        own.take(taker, t)
        taker.taken[slot % sliding_window.SLOTS] += 1
        if event.proposal.model:
            self._model.take(self._bucket(event.proposal.model, t), t)

    def _forgotten(self, event: NameForgotten) -> None:
        self._state.agents.pop(event.agent, None)

    def _bucket(self, model: str, t: float) -> TokenBucket:
        bucket = self._state.models.get(model)
        if bucket is None:
            self._drop_full(t)
            bucket = self._state.models[model] = TokenBucket()
        return bucket

    def _drop_full(self, t: float) -> None:
        """Drop full buckets of models to make room, because they limit nobody."""
        models, limit = self._state.models, self._model
        if len(models) >= MAX_COMMON:
            kept = {name: one for name, one in models.items() if limit.level(one, t) < limit.burst}
            self._state.models = kept

    def _mark(self, event: Decided, slot: int) -> Taker:
        """Count the agent as active in this slot instead of an earlier one."""
        state, taker = self._state, self._state.agents.get(event.agent)
        newest = sliding_window.slot_at(state.common.t)
        for ring in (state.proposing, state.keyless):
            sliding_window.roll(ring, newest, slot)
        sliding_window.add(state.ring(keyless=event.keyless), slot, 1)
        if taker is None:
            return state.agents.setdefault(event.agent, Taker(t=event.t, keyless=event.keyless))
        last = sliding_window.slot_at(taker.t)
        if slot - last < sliding_window.SLOTS:
            sliding_window.add(state.ring(keyless=taker.keyless), last, -1)
        sliding_window.roll(taker.taken, last, slot)
        taker.keyless = event.keyless
        return taker

    def _low_above(self, kept: RateReserve) -> float:
        """Return the level at or below which each agent is limited to its share."""
        return kept.common + (self._common.burst - kept.common) / LOW

    def _empty(self, proposed: Proposed, kept: RateReserve) -> Iterator[Missing]:
        """Yield a verdict for each empty level, with the wait until it has a token."""
        agent, model, t = proposed.agent, proposed.proposal.model, proposed.t
        own = self._limit(agent, host=bool(proposed.host))
        part = (
            " (half of the burst is reserved for agents with keys)"
            if kept is not NO_RESERVE
            else ""
        )
        if (level := self.common_bucket(t).tokens - kept.common) < 1.0:
            who = f"all agents together{part}"
            yield _refusal("rate.global", "", self._common, level, who)
        if (level := own.level(self._state.agents.get(agent, _FULL), t)) < 1.0:
            yield _refusal("rate.agent", agent, own, level, agent)
        if model and (level := self.model_bucket(model, t).tokens - kept.model) < 1.0:
            yield _refusal("rate.model", model, self._model, level, f"model {model}{part}")

    def _unfair(self, proposed: Proposed, kept: RateReserve) -> Iterator[Missing]:
        """Yield a verdict if the common bucket is low and the agent has used its share.

        Agents with keys and anonymous agents have separate shares.
        """
        agent, t, low = proposed.agent, proposed.t, self._low_above(kept)
        taker, slot = self._state.agents.get(agent), sliding_window.slot_at(t)
        if taker is None or self.common_bucket(t).tokens > low:
            return
        taken = sliding_window.total(taker.taken, sliding_window.slot_at(taker.t), slot)
        last = sliding_window.slot_at(self._state.common.t)
        agents = sliding_window.total(self._state.ring(keyless=proposed.keyless), last, slot)
        if taken * agents >= self._common.tokens_per_minute:
            used = f"{taken} proposals in the last minute, {agents} agents are active"
            share = f"{agent} has used its share ({used})"
            verdict = _verdict("rate.fairness", "rate.global", share, UNFAIR_WAIT_S)
            yield self._common.wait_s(self.common_bucket(t).tokens, low) + MORE_S, verdict


_FULL: Final = TokenBucket()


def _refusal(rule: str, whose: str, limit: Limit, level: float, who: str) -> Missing:
    limit_id = f"{rule}:{whose}" if whose else rule
    allowance = f"{limit.tokens_per_minute} proposals per minute for {who}"
    wait_s = limit.wait_s(level)
    return wait_s, _verdict(rule, limit_id, allowance, wait_s)


def _verdict(rule: str, limit_id: str, why: str, wait_s: float) -> Verdict:
    return Verdict(
        "rate",
        Severity.BLOCK,
        rule,
        f"Rate limit reached: {why}",
        cause="rate_limit",
        retry_after_s=wait_s,
        limit_id=limit_id,
    )


def _longest(missing: Sequence[Missing]) -> Verdict:
    """Return the verdict with the longest wait, with the rules of the others."""
    first = max((verdict for _, verdict in missing), key=lambda v: v.retry_after_s or 0.0)
    also = tuple(verdict.rule for _, verdict in missing if verdict is not first)
    wait_s = max(enough_s for enough_s, _ in missing)
    return msgspec.structs.replace(first, also=also, remedy=after(wait_s))
