"""The kernel of one agent: where its actions are, how many in a row failed, and safe mode.

         proposed          allowed            the Nth error in a row
    ready ------> planning ------> executing -----------------------> safe_mode
    ^ ^ ^            |                 |                                  |
    | | +--refused---+                 | any other end                    |
    | +----evaluated---- evaluating <--+                                  |
    +--------------------------exited-------------------------------------+

This is the way of one action; an agent may have several under way. A kernel can also be halted:
an operator puts it in safe mode wherever its actions are.
"""

import enum
import math
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

import msgspec

from safetyd.core.anonymous_pool import ANONYMOUS

EVERYBODY: Final = "*"  # no agent can have this name

# Names known by their outcomes alone: of one more without a key nothing is counted until it
# proposes.
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


# Of several that hold, the first of these is shown.
_SHOWN: Final = (
    State.SAFE_MODE,
    State.EXECUTING,
    State.PLANNING,
    State.EVALUATING,
    State.READY,
)

# Looked up once: this is on the way of every decision.
_READY: Final = State.READY
_SAFE_MODE: Final = State.SAFE_MODE


class Kernel(msgspec.Struct, gc=False):
    """One agent's kernel. Its memory does not grow with the number of actions."""

    # How many actions there are.
    planning: int = 0
    executing: int = 0
    evaluating: int = 0
    errors: int = 0  # in a row
    safe: bool = False  # in safe mode

    @property
    def state(self) -> State:
        return next(filter(self.holds, _SHOWN))

    def holds(self, state: State) -> bool:
        """Say whether a step can begin in `state`: in ready one always can."""
        if state is _SAFE_MODE:
            return self.safe
        return state is _READY or getattr(self, state) > 0

    def move(self, *steps: KernelStep) -> None:
        """Take one action along the diagram; `ValueError` if none is where a step begins."""
        for step in steps:
            if not self.holds(step.begin):
                raise ValueError(f"no action is {step.begin}, so none can be {step.name.lower()}")
            self._count(step.begin, -1)
            self._count(step.end, +1)

    def begin(self) -> None:
        """Be proposed and allowed in one step, as every decision that is final at once is."""
        self.executing += 1

    def give_up(self, count: int) -> None:
        """End and evaluate so many actions at once, or as many as are executing."""
        self.executing = max(self.executing - count, 0)

    def forget(self) -> None:
        """Have no action under way; safe mode stays."""
        self.planning = self.executing = self.evaluating = 0

    def halt(self) -> None:
        """Enter safe mode without an action's error."""
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
    """Return the state that stands for many."""
    return min(states, key=_SHOWN.index, default=_READY)


class SafeModeEntry(msgspec.Struct, frozen=True, gc=False):
    """How a kernel came into safe mode."""

    t: float
    since: datetime
    by: str
    reason: str
    by_error: bool = False  # not by a person


class AgentKernel(msgspec.Struct, gc=False):
    """What is known of one agent; the same size whatever it does."""

    kernel: Kernel = msgspec.field(default_factory=Kernel)
    keyless: bool | None = None  # None: it has not proposed yet, and none of its outcomes said so
    unproposed: bool = False  # although that is known
    heard_t: float = -math.inf
    busy_until_t: float = -math.inf  # an action without an outcome does not count for longer
    entry: SafeModeEntry | None = None  # the last one, which may be over

    def state(self, t: float) -> State:
        idle = t >= self.busy_until_t and not self.kernel.safe
        return State.READY if idle else self.kernel.state

    def begin(self, t: float, timeout_s: float) -> None:
        """Take note of an action that is allowed."""
        if t >= self.busy_until_t:
            # An id that was allowed anew has one outcome for two: such remains go here.
            self.kernel.forget()
        self.busy_until_t = t + timeout_s
        self.kernel.begin()

    def give_back(self) -> None:
        """Take note that an action that was asked about is no longer being planned."""
        if self.kernel.planning:
            self.kernel.move(KernelStep.REFUSED)

    def end(self) -> None:
        """Take note that an action is over, if one is under way."""
        self.kernel.give_up(1)

    def enter(self, entry: SafeModeEntry, *, by_error: bool) -> None:
        """Enter safe mode; an entry that already holds stays."""
        if not self.kernel.safe:
            self.entry = entry
        if by_error and self.kernel.holds(State.EXECUTING):
            self.kernel.move(KernelStep.TRIPPED)
        else:
            self.kernel.halt()


class Kernels(msgspec.Struct):
    """No agent is forgotten while it is in safe mode, because that would let it out."""

    agents: dict[str, AgentKernel] = {}  # and as one of them, all without a key
    unproposed: int = 0
    everybody: SafeModeEntry | None = None

    def proposing(self, name: str, *, keyless: bool) -> AgentKernel:
        """Return an agent that proposes."""
        agent = self.named(name)
        if agent.keyless is None or agent.unproposed:
            self.unproposed -= 1
        agent.keyless, agent.unproposed = keyless, False
        return agent

    def reporting(self, name: str, *, keyless: bool) -> AgentKernel | None:
        """Return an agent that reports an outcome, or None if it is one too many."""
        if keyless and name not in self.agents and self.unproposed >= MAX_UNPROPOSED:
            return None
        agent = self.named(name)
        if keyless and not agent.keyless:
            # With a key that was taken away, anybody may use its name.
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
        """Forget an agent that has proposed and that nothing holds."""
        self.agents.pop(name, None)

    def holding(self, name: str, *, keyless: bool) -> SafeModeEntry | None:
        """Return what keeps an agent to reading, if anything does."""
        if self.everybody is not None:
            return self.everybody
        if keyless and self.all_keyless is not None:
            return self.all_keyless
        agent = self.agents.get(name)
        return agent.entry if agent is not None and agent.kernel.safe else None

    @property
    def all_keyless(self) -> SafeModeEntry | None:
        """Return what keeps all agents without a key to reading, if anything does."""
        agent = self.agents.get(ANONYMOUS)
        return agent.entry if agent is not None and agent.kernel.safe else None

    def entries(
        self, only: str | None = None, *, keyless: bool = False
    ) -> Iterator[tuple[str, SafeModeEntry]]:
        """Yield every kernel that is in safe mode, or only those that hold one agent."""
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
        """Return who came into safe mode in the window, and how many were heard in the last hour.

        It is of those with a key, or of those without: such names can be made up.
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
        """Leave one agent's kernel or, if None, everybody's, and begin to count anew.

        Who is in safe mode alone stays there when everybody's is left.
        """
        if name is None and self.everybody is not None:
            self.everybody = None
            self._count_anew(self.agents.values())
        elif name in self.agents and self.agents[name].kernel.safe:
            self.agents[name].kernel.move(KernelStep.EXITED)
            if name == ANONYMOUS:
                self._count_anew(one for one in self.agents.values() if one.keyless)

    def _count_anew(self, agents: Iterable[AgentKernel]) -> None:
        for agent in agents:
            if not agent.kernel.safe:
                agent.kernel.errors = 0


_UNKNOWN: Final = AgentKernel()
