"""Safe mode: after too many consecutive errors an agent may only read, until an operator exits it.

Each agent has its own kernel. Global safe mode restricts all agents: an operator enters it, or it
starts when many agents with keys enter safe mode within a short time. Anonymous agents, whose names
can be invented, restrict only anonymous agents.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from safetyd.core.action_types import Kind
from safetyd.core.actor import Guard, hearing, later, on
from safetyd.core.anonymous_pool import ANONYMOUS
from safetyd.core.events.decision_events import Decided, Overdue, Proposed, Settled
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.guard_events import NameForgotten, SafeModeEntered, SafeModeExited
from safetyd.core.events.request_events import Dropped
from safetyd.core.guards.kernel import (
    EVERYBODY,
    AgentKernel,
    Kernels,
    KernelStep,
    SafeModeEntry,
    State,
    shown,
)
from safetyd.core.messages.proposal import Reversibility
from safetyd.core.messages.verdict import ALLOW, ALLOWED, Severity, Verdict, all_of


class SafeModeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max_consecutive_errors: Annotated[int, Meta(ge=1, le=1_000_000)] = 3
    cooldown_ms: Annotated[int, Meta(ge=0, le=604_800_000)] = 60_000
    count_dependency_errors: bool = False  # the breaker handles failed dependencies
    global_after_agents: Annotated[int, Meta(ge=0, le=1_000_000)] = 3  # 0: only an operator
    global_window_s: Annotated[float, Meta(gt=0, le=604_800)] = 600.0
    global_share: Annotated[float, Meta(ge=0, le=1)] = 0.25


class SafeModeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of one agent or of all. `agents` lists those in safe mode; "*" means all."""

    active: bool
    state: State
    consecutive_errors: int
    threshold: int
    since: datetime | None
    cooldown_remaining_ms: int
    agent: str | None
    agents: tuple[str, ...]


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel in safe mode; "*" is the global kernel."""

    agent: str
    since: datetime
    by: str
    reason: str
    cooldown_remaining_ms: int


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """The kernels that an exit would release ("*": the global kernel), or why it is refused."""

    agents: tuple[str, ...]
    error: Literal["", "several", "cooling_down"] = ""
    cooldown_remaining_ms: int = 0


class SafeMode(Guard):
    """Block changes in safe mode. An action counts as executing for `outcome_timeout_s` at most."""

    name = "safe_mode"
    _state: Kernels

    def __init__(self, config: SafeModeConfig, outcome_timeout_s: float) -> None:
        self._config = config
        self._outcome_timeout_s = outcome_timeout_s
        self._state = Kernels()
        self.hears = hearing(
            on(Decided, self._decided),
            later(self._approved),
            on(Dropped, self._dropped),
            on(Settled, self._settled),
            on(Overdue, self._overdue),
            on(SafeModeEntered, self._entered),
            on(SafeModeExited, self._exited),
            on(NameForgotten, self._forgotten),
        )

    def status(self, agent: str | None, t: float) -> SafeModeStatus:
        """Return the status of one agent or, if None, the most restricted of all."""
        held = dict(self._state.entries(agent))
        known = self._state.agents
        agents = known.values() if agent is None else (known.get(agent, AgentKernel()),)
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

    def holds(self, agent: str | None, t: float) -> Iterator[Hold]:
        """Yield the kernels that restrict one agent, or all if None; the global one first."""
        for kernel, entry in self._state.entries(agent):
            yield Hold(
                agent=kernel,
                since=entry.since,
                by=entry.by,
                reason=entry.reason,
                cooldown_remaining_ms=self._cooldown_ms((entry,), t),
            )

    def errors(self, agent: str) -> int:
        """Return an agent's consecutive errors."""
        known = self._state.agents.get(agent)
        return known.kernel.errors if known else 0

    def knows(self, agent: str) -> bool:
        """Return whether an agent was ever active or put in safe mode."""
        return agent in self._state.agents

    def holds_alone(self, agent: str) -> bool:
        """Return whether an agent's own kernel is in safe mode."""
        known = self._state.agents.get(agent)
        return known is not None and known.kernel.safe

    def plan_exit(self, agent: str | None, t: float, *, all_: bool, force: bool) -> Exit:
        """Return the kernels that an exit would release. None if the named one is not in safe mode.

        If no agent is named, release the only kernel in safe mode, or `all_` of them. "*" is the
        global kernel. `force` ignores the cooldown.
        """
        held = {n: e for n, e in self._state.entries() if agent is None or n == agent}
        if len(held) > 1 and not all_:
            return Exit(agents=tuple(held), error="several")
        left_ms = 0 if force else self._cooldown_ms(held.values(), t)
        if left_ms:
            return Exit(agents=tuple(held), error="cooling_down", cooldown_remaining_ms=left_ms)
        return Exit(agents=tuple(held))

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:
        entry = self._state.holding(proposed.agent, keyless=proposed.keyless)
        if entry is None or kind.read_only:
            return ALLOWED
        entries = self._state.entries(proposed.agent, keyless=proposed.keyless)
        held = (kernel for kernel, _ in entries)
        return _verdict(entry, kind.reversibility, all_of(map(_ending, held)))

    def now(self, decided: Decided, moment: Moment) -> str:
        status = self.status(decided.agent, moment.t)
        errors = f"{status.consecutive_errors} of {status.threshold} errors in a row"
        return f"{status.state}, {errors}"

    def _decided(self, event: Decided) -> None:
        if event.verdicts and event.stranger:
            return
        agent = self._state.agents.get(event.agent)
        if agent is None or agent.keyless is not event.keyless or agent.unproposed:
            agent = self._state.proposing(event.agent, keyless=event.keyless)
        agent.heard_t = event.t
        if event.decision is ALLOW:
            agent.begin(event.t, self._outcome_timeout_s)
        elif event.asks is not None and not event.asks.joins:
            agent.kernel.move(KernelStep.PROPOSED)
        else:
            agent.kernel.move(KernelStep.PROPOSED, KernelStep.REFUSED)

    def _approved(self, event: Decided) -> None:
        agent = self._state.proposing(event.agent, keyless=event.keyless)
        agent.begin(event.t, self._outcome_timeout_s)

    def _dropped(self, event: Dropped) -> None:
        self._state.named(event.agent).give_back()

    def _settled(self, event: Settled) -> Sequence[Event]:
        agent = self._state.reporting(event.agent, keyless=event.keyless)
        if agent is None:
            return ()
        agent.heard_t = event.t
        if event.id is None:
            agent.begin(
                event.t, self._outcome_timeout_s
            )  # it had no proposal, and has already ended
        if self._counts(agent, event):
            agent.kernel.errors = 0 if event.ok else agent.kernel.errors + 1
            if agent.kernel.errors >= self._config.max_consecutive_errors:
                # The action keeps its state until this event is observed.
                return (_too_many_errors(event, agent.kernel.errors),)
        agent.end()
        return ()

    def _overdue(self, event: Overdue) -> None:
        if agent := self._state.agents.get(event.agent):
            agent.kernel.give_up(len(event.ids))

    def _counts(self, agent: AgentKernel, event: Settled) -> bool:
        if agent.kernel.safe or self._state.everybody is not None:
            return False
        if agent.keyless and self._state.all_keyless is not None:
            return False
        return self._config.count_dependency_errors or not event.failed_dependency

    def _entered(self, event: SafeModeEntered) -> Sequence[Event]:
        entry = SafeModeEntry(
            event.t, event.at, event.by, event.reason, by_error=bool(event.errors)
        )
        if event.agent is None:
            self._state.everybody = self._state.everybody or entry
            return ()
        agent = self._state.named(event.agent)
        agent.enter(entry, by_error=bool(event.errors))
        by_error = bool(event.errors) and agent.entry is entry
        return self._widespread(event, event.agent) if by_error else ()

    def _widespread(self, event: SafeModeEntered, agent: str) -> Sequence[Event]:
        """Restrict all agents, or all anonymous ones, if too many of them entered safe mode."""
        config, keyless = self._config, self._state.agents[agent].keyless is True
        if not config.global_after_agents or self._state.holding(EVERYBODY, keyless=keyless):
            return ()
        entered, heard = self._state.spread(event.t, config.global_window_s, keyless=keyless)
        if agent not in entered or len(entered) < config.global_after_agents:
            return ()
        if len(entered) < heard and len(entered) / heard < config.global_share:
            return ()
        who = "anonymous agents" if keyless else "agents"
        within = f"within {config.global_window_s:g} s ({heard} were active in the last hour)"
        reason = f"{len(entered)} {who} entered safe mode {within}"
        whom = ANONYMOUS if keyless else None
        return (SafeModeEntered(at=event.at, t=event.t, by="safetyd", agent=whom, reason=reason),)

    def _exited(self, event: SafeModeExited) -> None:
        self._state.exit(event.agent)

    def _forgotten(self, event: NameForgotten) -> None:
        self._state.forget(event.agent)

    def _cooldown_ms(self, entries: Iterable[SafeModeEntry], t: float) -> int:
        """Return the milliseconds until the cooldowns of all entries are over."""
        since_t = max((entry.t for entry in entries), default=-math.inf)
        left_ms = (since_t - t) * 1000 + self._config.cooldown_ms
        return math.ceil(round(max(left_ms, 0.0), 3))


def _too_many_errors(event: Settled, errors: int) -> SafeModeEntered:
    reason = f"{errors} errors in a row" if errors > 1 else "1 error"
    return SafeModeEntered(
        at=event.at, t=event.t, agent=event.agent, by="safetyd", reason=reason, errors=errors
    )


def _ending(kernel: str) -> str:
    named = f'"{kernel}"' if kernel in {EVERYBODY, ANONYMOUS} else kernel
    return f"after `safetyd safe-mode exit --agent {named}`"


_DOES: Final[Mapping[Reversibility, str]] = {  # read-only actions are allowed
    "reversible": "this action changes something",
    "irreversible": "this action cannot be undone",
    "unknown": "the effect of this action is unknown",
}


def _verdict(entry: SafeModeEntry, reversibility: Reversibility, remedy: str) -> Verdict:
    said = f"Safe mode was entered at {entry.since:%H:%M}Z by {entry.by}"
    why = f"{said}: {entry.reason}" if entry.reason else said
    reason = f"{why}. Only read-only actions are allowed, and {_DOES[reversibility]}"
    return Verdict(
        "safe_mode",
        Severity.BLOCK,
        "safe_mode_restricted",
        reason,
        cause="safe_mode",
        remedy=remedy,
    )
