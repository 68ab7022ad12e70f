"""When a breaker opens, and for whom: its settings and the recent calls it judges by."""

from collections import Counter
from typing import Annotated, Final

import msgspec
from msgspec import Meta

MAX_CALLS: Final = 256

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Calling = Annotated[int, Meta(ge=1, le=MAX_CALLS)]


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
        """Say how the calls in the window went."""
        recent = self._since(t - config.window_s)
        failures = sum(not call.ok for call in recent)
        return f"{failures} of {len(recent)} calls failed in {config.window_s:g} s"

    def lone_failer(self, config: BreakerConfig, t: float) -> str | None:
        """Return the agent that failed most, unless the calls of others fail as well.

        If nobody else called, it is alone; without a key it may be anybody, so it is not.
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
