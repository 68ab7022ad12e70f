"""Rate limits: token buckets for everybody together, for each agent and for each model.

A proposal needs a token at each level that applies, and takes all or none. When the common bucket
runs low, agents that have had their share of the last minute wait.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from safetyd.core.events import Decided, Event, Proposed
from safetyd.core.guards import minute
from safetyd.core.guards.rates import BucketConfig, DevelopmentRates, ModeRates, ProductionRates
from safetyd.core.kinds import Kind
from safetyd.core.verdict import ALLOWED, Severity, Verdict

LOW: Final = 5  # at or below this part of the common burst, tokens go by shares: a fifth
UNFAIR_WAIT_S: Final = 1.0


class RateConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    attempts_per_second: Annotated[int, Meta(ge=0, le=100_000)] = 50  # 0: off
    development: DevelopmentRates = DevelopmentRates()
    production: ProductionRates = ProductionRates()
    hybrid: ProductionRates = ProductionRates()

    def of(self, mode: str) -> ModeRates:
        modes = {"development": self.development, "hybrid": self.hybrid}
        return modes.get(mode, self.production)


class Bucket(msgspec.Struct, gc=False):
    """What was left at `t`. A bucket that nobody took from is full, however large it is."""

    tokens: float = math.inf
    t: float = 0.0


class Taker(Bucket, gc=False):
    """An agent's bucket at its last proposal, and the tokens it took in the minute before."""

    taken: bytearray = msgspec.field(default_factory=minute.empty)


class RateState(msgspec.Struct):
    common: Bucket = msgspec.field(default_factory=Bucket)
    agents: dict[str, Taker] = {}
    models: dict[str, Bucket] = {}  # the keys guard bounds how many
    proposing: bytearray = msgspec.field(default_factory=minute.empty)  # agents, by last proposal


class Limit:
    """How a kind of bucket fills."""

    def __init__(self, config: BucketConfig) -> None:
        self.tokens_per_minute = config.tokens_per_minute
        self.burst = float(config.burst)
        self._per_s = config.tokens_per_minute / 60.0

    def level(self, bucket: Bucket, t: float) -> float:
        level = bucket.tokens + (t - bucket.t) * self._per_s
        if level > self.burst:
            return self.burst
        return level

    def fill(self, bucket: Bucket, t: float, *, take: bool) -> None:
        """Bring a bucket up to `t`, and take a token if there is one to take."""
        level = self.level(bucket, t)
        bucket.tokens = max(level - 1.0, 0.0) if take else level
        bucket.t = t

    def wait_s(self, level: float) -> float:
        return (1.0 - level) / self._per_s


class RateLimiter:
    """The guard. `overrides` are the buckets of single agents, by their exact names."""

    name = "rate"
    hears: tuple[type[Event], ...] = (Decided,)

    def __init__(
        self, config: RateConfig, mode: str, overrides: Mapping[str, BucketConfig]
    ) -> None:
        rates = config.of(mode)
        self._common, self._model = Limit(rates.global_), Limit(rates.model)
        self._agent = Limit(rates.agent)
        self._overrides = {agent: Limit(own) for agent, own in overrides.items()}
        self._low = self._common.burst / LOW
        self._state = RateState()

    def common_level(self, t: float) -> float:
        """Return the tokens that are left for everybody."""
        return self._common.level(self._state.common, t)

    def agent_level(self, agent: str, t: float) -> float:
        bucket = self._state.agents.get(agent, _FULL)
        return self._overrides.get(agent, self._agent).level(bucket, t)

    def model_level(self, model: str, t: float) -> float:
        return self._model.level(self._state.models.get(model, _FULL), t)

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:  # noqa: ARG002
        agent, model, t = proposed.agent, proposed.proposal.model, proposed.t
        if (
            self.common_level(t) > self._low
            and self.agent_level(agent, t) >= 1.0
            and (not model or self.model_level(model, t) >= 1.0)
        ):
            return ALLOWED
        missing = [*self._empty(agent, model or "", t), *self._unfair(agent, t)]
        return _longest(missing) if missing else ALLOWED

    def observe(self, event: Event) -> Sequence[Event]:
        if isinstance(event, Decided) and event.first and not _nameless(event):
            take = event.decision is not Severity.BLOCK
            self._proposed(event.agent, event.t, take=take)
            if take and event.proposal.model:
                bucket = self._state.models.setdefault(event.proposal.model, Bucket())
                self._model.fill(bucket, event.t, take=True)
        return ()

    def save(self) -> Callable[[], bytes]:
        saved = msgspec.msgpack.encode(self._state)
        return lambda: saved

    def load(self, saved: bytes) -> None:
        self._state = msgspec.msgpack.decode(saved, type=RateState)

    def _proposed(self, agent: str, t: float, *, take: bool) -> None:
        slot = minute.slot_at(t)
        taker = self._mark(agent, t, slot)
        self._common.fill(self._state.common, t, take=take)
        self._overrides.get(agent, self._agent).fill(taker, t, take=take)
        if take:
            minute.add(taker.taken, slot, 1)

    def _mark(self, agent: str, t: float, slot: int) -> Taker:
        """Count the agent among those that proposed in this slot, and no longer in an earlier."""
        proposing, taker = self._state.proposing, self._state.agents.get(agent)
        if taker is not None and (last := minute.slot_at(taker.t)) == slot:
            return taker
        minute.roll(proposing, minute.slot_at(self._state.common.t), slot)
        minute.add(proposing, slot, 1)
        if taker is None:
            return self._state.agents.setdefault(agent, Taker(t=t))
        if slot - last < minute.SLOTS:
            minute.add(proposing, last, -1)
        minute.roll(taker.taken, last, slot)
        return taker

    def _empty(self, agent: str, model: str, t: float) -> Iterator[Verdict]:
        """Yield a refusal for each level without a token."""
        own = self._overrides.get(agent, self._agent)
        if (level := self.common_level(t)) < 1.0:
            yield _refusal("rate.global", "", self._common, level, "all agents together")
        if (level := self.agent_level(agent, t)) < 1.0:
            yield _refusal("rate.agent", agent, own, level, agent)
        if model and (level := self.model_level(model, t)) < 1.0:
            yield _refusal("rate.model", model, self._model, level, f"model {model}")

    def _unfair(self, agent: str, t: float) -> Iterator[Verdict]:
        """Yield a refusal if little is left and the agent has had its share of the last minute."""
        taker, slot = self._state.agents.get(agent), minute.slot_at(t)
        if taker is None or self.common_level(t) > self._low:
            return
        taken = minute.total(taker.taken, minute.slot_at(taker.t), slot)
        last = minute.slot_at(self._state.common.t)
        agents = minute.total(self._state.proposing, last, slot)
        if taken * agents >= self._common.tokens_per_minute:
            share = f"{agent} took {taken} in a minute, and {agents} agents share what is left"
            yield _verdict("rate.fairness", "rate.global", share, UNFAIR_WAIT_S)


_FULL: Final = Bucket()


def _nameless(event: Decided) -> bool:
    """Say whether the name itself was one too many: it is not remembered."""
    return bool(event.verdicts) and any(v.rule == "keys.agents" for v in event.verdicts)


def _refusal(rule: str, whose: str, limit: Limit, level: float, who: str) -> Verdict:
    limit_id = f"{rule}:{whose}" if whose else rule
    allowance = f"{limit.tokens_per_minute} proposals a minute for {who}"
    return _verdict(rule, limit_id, allowance, limit.wait_s(level))


def _verdict(rule: str, limit_id: str, why: str, wait_s: float) -> Verdict:
    return Verdict(
        "rate",
        Severity.BLOCK,
        rule,
        f"rate limit reached: {why}",
        cause="rate_limit",
        retry_after_s=wait_s,
        limit_id=limit_id,
    )


def _longest(missing: Sequence[Verdict]) -> Verdict:
    """Make one verdict of many: the one that must be waited for longest."""
    first = max(missing, key=lambda verdict: verdict.retry_after_s or 0.0)
    also = tuple(verdict.rule for verdict in missing if verdict is not first)
    return msgspec.structs.replace(first, also=also)
