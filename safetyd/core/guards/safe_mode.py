"""Safe mode: after too many errors in a row an agent may only read, until a person lets it go.

Each agent has a kernel of its own. One more holds everybody: an operator puts it in safe mode, or
many agents that came into safe mode shortly after one another do.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from safetyd.core.events import (
    Decided,
    Event,
    Overdue,
    Proposed,
    SafeModeEntered,
    SafeModeExited,
    Settled,
)
from safetyd.core.guards.fleet import EVERYBODY, Agent, Entry, Fleet
from safetyd.core.kernel import State, Step, shown
from safetyd.core.kinds import Kind
from safetyd.core.proposal import Reversibility
from safetyd.core.verdict import ALLOWED, Severity, Verdict


class SafeModeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max_consecutive_errors: Annotated[int, Meta(ge=1, le=1_000_000)] = 3
    cooldown_ms: Annotated[int, Meta(ge=0, le=604_800_000)] = 60_000
    count_dependency_errors: bool = False  # those are the breaker's
    global_after_agents: Annotated[int, Meta(ge=0, le=1_000_000)] = 3  # 0: only an operator
    global_window_s: Annotated[float, Meta(gt=0, le=604_800)] = 600.0
    global_share: Annotated[float, Meta(ge=0, le=1)] = 0.25


class SafeModeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What people see. `agents` are the kernels in safe mode, everybody's as "*"."""

    active: bool
    state: State
    consecutive_errors: int
    threshold: int
    since: datetime | None
    cooldown_remaining_ms: int
    agent: str | None
    agents: tuple[str, ...]


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """Which kernels an exit would leave, everybody's as "*"; or why it may not."""

    agents: tuple[str, ...]
    error: Literal["", "several", "cooling_down"] = ""
    cooldown_remaining_ms: int = 0


class SafeMode:
    """The guard. After `outcome_timeout_s` an action without an outcome is no longer executing."""

    name = "safe_mode"
    hears: tuple[type[Event], ...] = (Decided, Settled, Overdue, SafeModeEntered, SafeModeExited)

    def __init__(self, config: SafeModeConfig, outcome_timeout_s: float) -> None:
        self._config = config
        self._outcome_timeout_s = outcome_timeout_s
        self._state = Fleet()

    def status(self, agent: str | None, t: float) -> SafeModeStatus:
        """Describe one agent or, if None, all: the most restricted state and the largest count."""
        named = {EVERYBODY, agent}
        held = {name: e for name, e in self._state.entries() if agent is None or name in named}
        known = self._state.agents
        agents = known.values() if agent is None else (known.get(agent, Agent()),)
        return SafeModeStatus(
            active=bool(held),
            state=State.SAFE_MODE if held else shown(one.state(t) for one in agents),
            consecutive_errors=max((one.kernel.errors for one in agents), default=0),
            threshold=self._config.max_consecutive_errors,
            since=min((entry.since for entry in held.values()), default=None),
            cooldown_remaining_ms=self._cooldown_ms(held.values(), t),
            agent=agent,
            agents=tuple(held),
        )

    def plan_exit(self, agent: str | None, t: float, *, all_: bool, force: bool) -> Exit:
        """Say which kernels an exit would leave: none, if what it names is not in safe mode.

        One that names no agent means the only kernel that is in safe mode, or `all_` of them;
        "*" names everybody's. `force` does not wait for the cooldown.
        """
        held = {n: e for n, e in self._state.entries() if agent is None or n == agent}
        if len(held) > 1 and not all_:
            return Exit(agents=tuple(held), error="several")
        left_ms = 0 if force else self._cooldown_ms(held.values(), t)
        if left_ms:
            return Exit(agents=tuple(held), error="cooling_down", cooldown_remaining_ms=left_ms)
        return Exit(agents=tuple(held))

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:
        entry = self._state.holding(proposed.agent)
        if entry is None or kind.read_only:
            return ALLOWED
        return _verdict(entry, kind.reversibility)

    def observe(self, event: Event) -> Sequence[Event]:
        match event:
            case Decided():
                if event.first and not _nameless(event):
                    self._decided(event)
            case Settled():
                return self._settled(event)
            case Overdue():
                self._overdue(event)
            case SafeModeEntered():
                return self._entered(event)
            case SafeModeExited():
                self._state.exit(event.agent)
        return ()

    def save(self) -> Callable[[], bytes]:
        saved = msgspec.msgpack.encode(self._state)
        return lambda: saved

    def load(self, saved: bytes) -> None:
        self._state = msgspec.msgpack.decode(saved, type=Fleet)

    def _decided(self, event: Decided) -> None:
        agent = self._state.proposing(event.agent, keyless=event.keyless)
        agent.heard_t = event.t
        if event.decision is Severity.ALLOW:
            agent.begin(event.t, self._outcome_timeout_s)
        else:
            agent.kernel.move(Step.PROPOSED, Step.REFUSED)

    def _settled(self, event: Settled) -> Sequence[Event]:
        agent = self._state.reporting(event.agent)
        if agent is None:
            return ()
        agent.heard_t = event.t
        if event.id is None:
            agent.begin(event.t, self._outcome_timeout_s)  # without asking, and it is over
        if self._counts(agent, event):
            agent.kernel.errors = 0 if event.ok else agent.kernel.errors + 1
            if agent.kernel.errors >= self._config.max_consecutive_errors:
                # The action stays where it is until this is observed.
                return (_too_many_errors(event, agent.kernel.errors),)
        agent.end()
        return ()

    def _overdue(self, event: Overdue) -> None:
        if agent := self._state.agents.get(event.agent):
            agent.end()

    def _counts(self, agent: Agent, event: Settled) -> bool:
        if agent.kernel.safe or self._state.everybody is not None:
            return False
        return self._config.count_dependency_errors or not event.failed_dependency

    def _entered(self, event: SafeModeEntered) -> Sequence[Event]:
        entry = Entry(event.t, event.at, event.by, event.reason)
        if event.agent is None:
            self._state.everybody = self._state.everybody or entry
            return ()
        agent = self._state.named(event.agent)
        agent.enter(entry, by_error=bool(event.errors))
        return self._widespread(event, event.agent) if agent.entry is entry else ()

    def _widespread(self, event: SafeModeEntered, agent: str) -> Sequence[Event]:
        """Put everybody in safe mode if this agent is one of too many."""
        config = self._config
        if not config.global_after_agents or self._state.everybody is not None:
            return ()
        entered, heard = self._state.spread(event.t, config.global_window_s)
        if agent not in entered or len(entered) < config.global_after_agents:
            return ()
        if len(entered) < heard and len(entered) / heard < config.global_share:
            return ()
        within = f"within {config.global_window_s:g} s, of {heard} heard in the last hour"
        reason = f"{len(entered)} agents came into safe mode {within}"
        return (SafeModeEntered(at=event.at, t=event.t, by="safetyd", reason=reason),)

    def _cooldown_ms(self, entries: Iterable[Entry], t: float) -> int:
        """Return how long it takes until all may be left."""
        since_t = max((entry.t for entry in entries), default=-math.inf)
        left_ms = (since_t - t) * 1000 + self._config.cooldown_ms
        return math.ceil(round(max(left_ms, 0.0), 3))


def _nameless(event: Decided) -> bool:
    """Say whether the name itself was one too many: it is not remembered."""
    return bool(event.verdicts) and any(v.rule == "keys.agents" for v in event.verdicts)


def _too_many_errors(event: Settled, errors: int) -> SafeModeEntered:
    reason = f"{errors} errors in a row" if errors > 1 else "an error"
    return SafeModeEntered(
        at=event.at, t=event.t, agent=event.agent, by="safetyd", reason=reason, errors=errors
    )


def _verdict(entry: Entry, reversibility: Reversibility) -> Verdict:
    said = f"safe mode is active since {entry.since:%H:%M}Z by {entry.by}"
    why = f"{said}: {entry.reason}" if entry.reason else said
    unknown = "what this would do is unknown"
    what = unknown if reversibility == "unknown" else f"this is {reversibility}"
    reason = f"{why}; only reading is allowed, and {what}"
    return Verdict("safe_mode", Severity.BLOCK, "safe_mode_restricted", reason, cause="safe_mode")
