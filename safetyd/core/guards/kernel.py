"""The kernel of one agent: the states of its actions, its consecutive errors, and safe mode.

         proposed          allowed            the Nth error in a row
    ready ------> planning ------> executing -----------------------> safe_mode
    ^ ^ ^            |                 |                                  |
    | | +--refused---+                 | any other end                    |
    | +----evaluated---- evaluating <--+                                  |
    +--------------------------exited-------------------------------------+

The diagram shows one action; an agent may have several in progress. An operator can put a kernel
in safe mode at any time.
"""

import enum
import math
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

import msgspec

from safetyd.core.anonymous_pool import ANONYMOUS

EVERYBODY: Final = "*"  # no agent can have this name

# Anonymous names known only by their outcomes. Further ones are ignored until they propose.
MAX_UNPROPOSED: Final = 1_000

HEARD_S: Final = 3600.0


class State(enum.StrEnum):
    READY = "ready"
    PLANNING = "planning"
    EXECUTING = "executing"
    EVALUATING = "evaluating"
    SAFE_MODE = "safe_mode"


class KernelStep(enum.Enum):
    """The edges of the diagram."""

    PROPOSED = (State.READY, State.PLANNING)
    ALLOWED = (State.PLANNING, State.EXECUTING)
    REFUSED = (State.PLANNING, State.READY)
    ENDED = (State.EXECUTING, State.EVALUATING)
    EVALUATED = (State.EVALUATING, State.READY)
    TRIPPED = (State.EXECUTING, State.SAFE_MODE)
    EXITED = (State.SAFE_MODE, State.READY)

    def __init__(self, begin: State, end: State) -> None:
        self.begin = begin
        self.end = end


# If several states apply, the first of these is shown.
_SHOWN: Final = (
    State.SAFE_MODE,
    State.EXECUTING,
    State.PLANNING,
    State.EVALUATING,
    State.READY,
)

# Looked up once, because every decision needs them.
_READY: Final = State.READY
_SAFE_MODE: Final = State.SAFE_MODE


class Kernel(msgspec.Struct, gc=False):
    """One agent's kernel. Its size does not depend on the number of actions."""

    # How many actions are in each state.
    planning: int = 0
    executing: int = 0
    evaluating: int = 0
    errors: int = 0  # in a row
    safe: bool = False  # in safe mode

    @property
    def state(self) -> State:
        return next(filter(self.holds, _SHOWN))

    def holds(self, state: State) -> bool:
        """Return whether a step can begin in `state`. In `ready`, a step can always begin."""
        if state is _SAFE_MODE:
            return self.safe
        return state is _READY or getattr(self, state) > 0

    def move(self, *steps: KernelStep) -> None:
        """Move one action along the diagram. Raise `ValueError` if no action can take this step."""
        for step in steps:
            if not self.holds(step.begin):
                raise ValueError(f"no action is {step.begin}, so none can be {step.name.lower()}")
            self._count(step.begin, -1)
            self._count(step.end, +1)

    def begin(self) -> None:
        """Count one action as proposed and allowed, in one step."""
        self.executing += 1

    def give_up(self, count: int) -> None:
        """End and evaluate `count` actions, or as many as are executing."""
        self.executing = max(self.executing - count, 0)

    def forget(self) -> None:
        """Drop all actions in progress. Safe mode stays."""
        self.planning = self.executing = self.evaluating = 0

    def halt(self) -> None:
        """Enter safe mode without an error."""
        self.safe = True

    def _count(self, state: State, change: int) -> None:
        if state is _READY:
            return
        if state is _SAFE_MODE:
            self.safe = change > 0
            if not self.safe:
                self.errors = 0
        else:
            setattr(self, state, getattr(self, state) + change)


def shown(states: Iterable[State]) -> State:
    """Return the most restricted of several states."""
    return min(states, key=_SHOWN.index, default=_READY)


class SafeModeEntry(msgspec.Struct, frozen=True, gc=False):
    """How a kernel entered safe mode."""

    t: float
    since: datetime
    by: str
    reason: str
    by_error: bool = False  # consecutive errors caused it, not an operator


class AgentKernel(msgspec.Struct, gc=False):
    """The kernel of one agent and its history. Its size is constant."""

    kernel: Kernel = msgspec.field(default_factory=Kernel)
    keyless: bool | None = None  # None until its first proposal
    unproposed: bool = False  # it has sent outcomes but no proposal
    heard_t: float = -math.inf
    busy_until_t: float = -math.inf  # when an action without an outcome stops counting as executing
    entry: SafeModeEntry | None = None  # the last entry into safe mode, which may have ended since

    def state(self, t: float) -> State:
        idle = t >= self.busy_until_t and not self.kernel.safe
        return State.READY if idle else self.kernel.state

    def begin(self, t: float, timeout_s: float) -> None:
        """Record an allowed action."""
        if t >= self.busy_until_t:
            # An id that was allowed twice gets only one outcome. Drop the action that never ends.
            self.kernel.forget()
        self.busy_until_t = t + timeout_s
        self.kernel.begin()

    def give_back(self) -> None:
        """Record that a pending action was not approved."""
        if self.kernel.planning:
            self.kernel.move(KernelStep.REFUSED)

    def end(self) -> None:
        """Record that an action ended, if one is in progress."""
        self.kernel.give_up(1)

    def enter(self, entry: SafeModeEntry, *, by_error: bool) -> None:
        """Enter safe mode. If it is already active, keep the earlier entry."""
        if not self.kernel.safe:
            self.entry = entry
        if by_error and self.kernel.holds(State.EXECUTING):
            self.kernel.move(KernelStep.TRIPPED)
        else:
            self.kernel.halt()


class Kernels(msgspec.Struct):
    """All kernels. An agent in safe mode is never forgotten, because that would release it."""

    agents: dict[str, AgentKernel] = {}  # anonymous agents also share one entry
    unproposed: int = 0
    everybody: SafeModeEntry | None = None

    def proposing(self, name: str, *, keyless: bool) -> AgentKernel:
        """Return the kernel of an agent that proposes."""
        agent = self.named(name)
        if agent.keyless is None or agent.unproposed:
            self.unproposed -= 1
        agent.keyless, agent.unproposed = keyless, False
        return agent

    def reporting(self, name: str, *, keyless: bool) -> AgentKernel | None:
        """Return the kernel of an agent that reports, or None if there are too many names."""
        if keyless and name not in self.agents and self.unproposed >= MAX_UNPROPOSED:
            return None
        agent = self.named(name)
        if keyless and not agent.keyless:
            # The key may have been revoked, so anyone may use the name.
            agent.unproposed = agent.keyless is None
            agent.keyless = True
        return agent

    def named(self, name: str) -> AgentKernel:
        agent = self.agents.get(name)
        if agent is None:
            agent = self.agents[name] = AgentKernel()
            self.unproposed += 1
        return agent

    def forget(self, name: str) -> None:
        """Forget an agent that has proposed and is not restricted."""
        self.agents.pop(name, None)

    def holding(self, name: str, *, keyless: bool) -> SafeModeEntry | None:
        """Return the entry that restricts an agent to reading, if any."""
        if self.everybody is not None:
            return self.everybody
        if keyless and self.all_keyless is not None:
            return self.all_keyless
        agent = self.agents.get(name)
        return agent.entry if agent is not None and agent.kernel.safe else None

    @property
    def all_keyless(self) -> SafeModeEntry | None:
        """Return the entry that restricts all anonymous agents to reading, if any."""
        agent = self.agents.get(ANONYMOUS)
        return agent.entry if agent is not None and agent.kernel.safe else None

    def entries(
        self, only: str | None = None, *, keyless: bool = False
    ) -> Iterator[tuple[str, SafeModeEntry]]:
        """Yield every kernel in safe mode, or `only` those that restrict one agent."""
        if self.everybody is not None:
            yield EVERYBODY, self.everybody
        names: Iterable[str] = self.agents
        if only is not None:
            keyless = keyless or self.agents.get(only, _UNKNOWN).keyless is True
            names = (ANONYMOUS, only) if keyless else (only,)
        for name in names:
            agent = self.agents.get(name)
            if agent is not None and agent.entry is not None and agent.kernel.safe:
                yield name, agent.entry

    def spread(self, t: float, window_s: float, *, keyless: bool) -> tuple[tuple[str, ...], int]:
        """Return the agents that entered safe mode in the window, and how many were active.

        Agents with keys and anonymous agents are counted separately, because anonymous names can
        be invented.
        """
        counted = {
            name: agent
            for name, agent in self.agents.items()
            if (agent.keyless is True) is keyless and name != ANONYMOUS
        }
        entered = (
            name
            for name, one in counted.items()
            if one.entry and one.entry.by_error and one.entry.t > t - window_s
        )
        return tuple(entered), sum(one.heard_t > t - HEARD_S for one in counted.values())

    def exit(self, name: str | None) -> None:
        """End safe mode of one agent, or global safe mode if None. Reset the error counts.

        An agent that is in safe mode itself stays there when the global safe mode ends.
        """
        if name is None and self.everybody is not None:
            self.everybody = None
            self._reset_errors(self.agents.values())
        elif name in self.agents and self.agents[name].kernel.safe:
            self.agents[name].kernel.move(KernelStep.EXITED)
            if name == ANONYMOUS:
                self._reset_errors(one for one in self.agents.values() if one.keyless)

    def _reset_errors(self, agents: Iterable[AgentKernel]) -> None:
        for agent in agents:
            if not agent.kernel.safe:
                agent.kernel.errors = 0


_UNKNOWN: Final = AgentKernel()
