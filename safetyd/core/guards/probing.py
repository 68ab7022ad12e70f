"""A breaker that is not closed, and the few calls that find out whether it may close."""

from typing import Literal, NamedTuple

import msgspec

from safetyd.core.guards.circuit import BreakerConfig
from safetyd.core.messages.verdict import after

State = Literal["closed", "half_open", "open"]


class Move(NamedTuple):
    """Where a breaker goes and why, and the agent whose probe failed or was late, if any."""

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
    out: dict[str, float] = {}  # when each probe began that has no outcome, by agent and id
    keyless: bool = False
    failed: str = ""  # the agent whose probe opened it again

    def wait_s(self, config: BreakerConfig, t: float, agent: str = "") -> float:
        """Return how long until a proposal may be a probe; 0 if it may be one now.

        Once `open_s` is over the breaker counts as half open, however late the tick that says so.
        Who failed the last probe lets others go first, so that nobody keeps it open for all.
        """
        yields = self.agent is None and not self.keyless and agent and agent == self.failed
        if yields and (wait_s := self.open_t + 2 * config.open_s - t) > 0:
            return wait_s
        if not self.half_open:
            return max(self.open_t + config.open_s - t, 0.0)
        if self.started >= config.probe_count:
            return config.probe_interval_s or 1.0  # nobody knows when the outcomes come
        return max(self.probe_t + config.probe_interval_s - t, 0.0) if self.started else 0.0

    def remedy(self, config: BreakerConfig, t: float, agent: str) -> str:
        """Say what lets a proposal pass that may not be a probe now."""
        if self.half_open and self.started >= config.probe_count:
            return f"once {config.probe_count} probes of {self.breaker} succeeded"
        return after(self.wait_s(config, t, agent))

    def start(self, probe: str, t: float) -> None:
        self.started += 1
        self.probe_t = t
        self.out[probe] = t

    def settle(self, config: BreakerConfig, probe: str, t: float, *, ok: bool) -> Move | None:
        """Take note of a probe's outcome; return where that moves the breaker, and why."""
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
        """Return where time alone moves the breaker, and why."""
        if self.half_open:
            return self._overdue(config) if self._late(config, t) else None
        if self.wait_s(config, t):
            return None
        return Move("half_open", f"{config.open_s:g} s have passed")

    def _late(self, config: BreakerConfig, t: float) -> bool:
        """Say whether a probe has been without an outcome for too long."""
        return bool(self.out) and t >= min(self.out.values()) + config.probe_timeout_s

    def _overdue(self, config: BreakerConfig) -> Move:
        first = min(self.out, key=self.out.__getitem__)
        reason = f"a probe had no outcome within {config.probe_timeout_s:g} s"
        return Move("open", reason, _agent(first))


def _agent(probe: str) -> str:
    """Return whose probe it is; agents' names have no spaces."""
    return probe.partition(" ")[0]
