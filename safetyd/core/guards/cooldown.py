"""The cooldown between two dispatches of one agent to the same target."""

import hashlib
import math
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from safetyd.core.action_types import Kind
from safetyd.core.actor import Guard, hearing, later, on
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import Forgotten, NameForgotten
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.verdict import ALLOW, ALLOWED, Severity, Verdict, after, seconds

MAX_TARGETS: Final = 64  # per agent
MAX_NAME: Final = 64  # a longer target name is stored as its hash


class CooldownConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    dispatch_s: Annotated[float, Meta(ge=0, le=604_800)] = 60.0  # 0: off


class CooldownState(msgspec.Struct):
    stamps: dict[str, dict[str, float]] = {}  # by agent and target, oldest first


class Cooldown(Guard):
    """Block dispatches to a target that was dispatched to too recently.

    `overrides` are cooldowns in seconds by exact agent name. A stamp is the time of the last
    allowed dispatch. Active stamps are never dropped: if 64 targets are cooling down, a dispatch to
    another target must wait for the oldest.
    """

    name = "cooldown"
    _state: CooldownState

    def __init__(self, config: CooldownConfig, overrides: Mapping[str, float]) -> None:
        self._dispatch_s = config.dispatch_s
        self._overrides = dict(overrides)
        self._state = CooldownState()
        self.hears = hearing(
            on(Decided, self._decided),
            later(self._decided),
            on(Forgotten, self._forgotten),
            on(NameForgotten, self._gone),
        )

    @property
    def agents(self) -> tuple[str, ...]:
        """Return the agents with recorded dispatches."""
        return tuple(self._state.stamps)

    def cooldown_s(self, agent: str) -> float:
        return self._overrides.get(agent, self._dispatch_s)

    def cooling(self, agent: str, t: float) -> dict[str, float]:
        """Return the targets that are cooling down for an agent, with the seconds left."""
        ready = self.cooldown_s(agent) - t
        stamps = self._state.stamps.get(agent, {})
        return {target: stamp + ready for target, stamp in stamps.items() if stamp + ready > 0}

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:
        if kind.type != "dispatch":
            return ALLOWED
        agent, cooldown_s = proposed.agent, self.cooldown_s(proposed.agent)
        stamps = self._state.stamps.get(agent, {})
        target = _target(agent, proposed.proposal)
        crowded = target not in stamps and len(stamps) >= MAX_TARGETS
        stamp = stamps.get(next(iter(stamps)) if crowded else target, -math.inf)
        if proposed.t - stamp >= cooldown_s:
            return ALLOWED
        rule = "cooldown.targets" if crowded else "cooldown.dispatch"
        return _verdict(rule, agent, proposed.t - stamp, cooldown_s)

    def now(self, decided: Decided, moment: Moment) -> str:
        if decided.type != "dispatch":
            return "dispatches only"
        cooling = self.cooling(decided.agent, moment.t)
        left_s = cooling.get(_target(decided.agent, decided.proposal))
        return "ready" if left_s is None else f"{seconds(left_s)} left"

    def _decided(self, event: Decided) -> None:
        if event.type == "dispatch" and event.decision is ALLOW:
            self._stamp(event.agent, _target(event.agent, event.proposal), event.t)

    def _forgotten(self, event: Forgotten) -> None:
        if event.episode is None:
            self._state.stamps.pop(event.agent, None)

    def _gone(self, event: NameForgotten) -> None:
        self._state.stamps.pop(event.agent, None)

    def _stamp(self, agent: str, target: str, t: float) -> None:
        cooldown_s = self.cooldown_s(agent)
        stamps = self._state.stamps.setdefault(agent, {})
        stamps.pop(target, None)
        for known, stamp in tuple(stamps.items()):
            if t - stamp < cooldown_s and len(stamps) < MAX_TARGETS:
                break
            del stamps[known]
        stamps[target] = t


def _target(agent: str, proposal: Proposal) -> str:
    """Return the name of the dispatch target. If there is none, it is the agent itself."""
    name = proposal.target.name if proposal.target else ""
    if len(name) > MAX_NAME:
        return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()
    return name or agent


def _verdict(rule: str, agent: str, elapsed: float, cooldown_s: float) -> Verdict:
    reason = f"cooldown not elapsed ({int(elapsed)}s < {cooldown_s:g}s)"
    if rule == "cooldown.targets":
        reason += f" for the oldest of {MAX_TARGETS} targets"
    return Verdict(
        "cooldown",
        Severity.BLOCK,
        rule,
        reason,
        cause="cooldown",
        retry_after_s=cooldown_s - elapsed,
        limit_id=f"{rule}:{agent}",
        remedy=after(cooldown_s - elapsed),
    )
