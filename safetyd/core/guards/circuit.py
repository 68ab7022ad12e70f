"""Decides when a breaker opens and for which agent, and counts the probes that close it."""

from collections import Counter
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from safetyd.core.messages.verdict import after

MAX_CALLS: Final = 256
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Calling = Annotated[int, Meta(ge=1, le=MAX_CALLS)]
State = Literal["closed", "half_open", "open"]


class BreakerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    error_rate: Annotated[float, Meta(gt=0, le=1)] = 0.5
    min_calls: Calling = 20
    window_s: Seconds = 60.0
    max_consecutive_failures: Calling = 5
    open_s: Seconds = 30.0
    probe_count: Annotated[int, Meta(ge=1, le=64)] = 3
    probe_interval_s: Annotated[float, Meta(ge=0, le=86_400)] = 5.0
    probe_timeout_s: Seconds = 60.0
    per_task: bool = False


class Call(msgspec.Struct, frozen=True, gc=False, array_like=True):
    t: float
    agent: str
    ok: bool


class Calls(msgspec.Struct):
    """The last calls of a closed breaker, at most 256, oldest first."""

    calls: list[Call] = []
    keyless: bool = False

    def add(self, call: Call) -> None:
        self.calls.append(call)
        if len(self.calls) > MAX_CALLS:
            del self.calls[0]

    def drop(self, agent: str) -> None:
        """Forget the calls of one agent."""
        self.calls = [call for call in self.calls if call.agent != agent]

    def breach(self, config: BreakerConfig, t: float) -> str:
        """Return why the breaker must open, if it must."""
        recent = self._since(t - config.window_s)
        failures = sum(not call.ok for call in recent)
        if len(recent) >= config.min_calls and failures / len(recent) >= config.error_rate:
            return f"{failures} of {len(recent)} calls failed in {config.window_s:g} s"
        if self._last_failed(config.max_consecutive_failures):
            return f"{config.max_consecutive_failures} calls in a row failed"
        return ""

    def recent(self, config: BreakerConfig, t: float) -> str:
        """Return how many calls in the window failed, in words."""
        recent = self._since(t - config.window_s)
        failures = sum(not call.ok for call in recent)
        return f"{failures} of {len(recent)} calls failed in {config.window_s:g} s"

    def lone_failer(self, config: BreakerConfig, t: float) -> str | None:
        """Return the agent that failed most, or None if calls of other agents fail as well.

        If no other agent made calls, return the agent only if it has a key.
        """
        recent = self._since(t - config.window_s)
        failures = Counter(call.agent for call in recent if not call.ok)
        worst = max(failures, key=failures.__getitem__)
        others = [call.ok for call in recent if call.agent != worst]
        if not others:
            return None if self.keyless else worst
        return worst if others.count(False) / len(others) < config.error_rate else None

    def _since(self, t: float) -> list[Call]:
        return [call for call in self.calls if call.t > t]

    def _last_failed(self, count: int) -> bool:
        return len(self.calls) >= count and not any(call.ok for call in self.calls[-count:])


class Move(NamedTuple):
    """The next state of a breaker, the reason, and the agent whose probe failed or timed out."""

    state: State
    reason: str
    failed: str = ""


class Tripped(msgspec.Struct):
    breaker: str
    agent: str | None
    reason: str
    open_t: float  # when it last opened
    half_open: bool = False
    started: int = 0  # probes since then
    succeeded: int = 0
    probe_t: float = 0.0  # when the last probe began
    out: dict[str, float] = {}  # start of each probe that has no outcome yet, by agent and id
    keyless: bool = False
    failed: str = ""  # the agent whose probe opened it again

    def wait_s(self, config: BreakerConfig, t: float, agent: str = "") -> float:
        """Return the seconds until a proposal can be used as a probe, or 0 if it can be one now.

        After `open_s` the breaker counts as half open even if the tick is late. The agent whose
        probe failed last waits longer, so that it cannot keep the breaker open for the others.
        """
        yields = self.agent is None and not self.keyless and agent and agent == self.failed
        if yields and (wait_s := self.open_t + 2 * config.open_s - t) > 0:
            return wait_s
        if not self.half_open:
            return max(self.open_t + config.open_s - t, 0.0)
        if self.started >= config.probe_count:
            return config.probe_interval_s or 1.0  # it is unknown when the outcomes arrive
        return max(self.probe_t + config.probe_interval_s - t, 0.0) if self.started else 0.0

    def remedy(self, config: BreakerConfig, t: float, agent: str) -> str:
        """Return the remedy for a proposal that cannot be a probe now."""
        if self.half_open and self.started >= config.probe_count:
            return f"after {config.probe_count} probes of {self.breaker} succeed"
        return after(self.wait_s(config, t, agent))

    def start(self, probe: str, t: float) -> None:
        self.started += 1
        self.probe_t = t
        self.out[probe] = t

    def settle(self, config: BreakerConfig, probe: str, t: float, *, ok: bool) -> Move | None:
        """Record a probe's outcome. Return the state change that it causes, if any."""
        if self._late(config, t):
            return self._overdue(config)
        del self.out[probe]
        if not ok:
            return Move("open", "a probe failed", _agent(probe))
        self.succeeded += 1
        if self.succeeded < config.probe_count:
            return None
        return Move("closed", f"{self.succeeded} probes succeeded")

    def due(self, config: BreakerConfig, t: float) -> Move | None:
        """Return the state change that is due because of the time, if any."""
        if self.half_open:
            return self._overdue(config) if self._late(config, t) else None
        if self.wait_s(config, t):
            return None
        return Move("half_open", f"{config.open_s:g} s have passed")

    def _late(self, config: BreakerConfig, t: float) -> bool:
        """Return whether a probe has been without an outcome for too long."""
        return bool(self.out) and t >= min(self.out.values()) + config.probe_timeout_s

    def _overdue(self, config: BreakerConfig) -> Move:
        first = min(self.out, key=self.out.__getitem__)
        reason = f"a probe had no outcome within {config.probe_timeout_s:g} s"
        return Move("open", reason, _agent(first))


def _agent(probe: str) -> str:
    """Return the agent of a probe. Agent names contain no spaces."""
    return probe.partition(" ")[0]
