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
from collections.abc import Iterable
from typing import Final

import msgspec


class State(enum.StrEnum):
    READY = "ready"
    PLANNING = "planning"
    EXECUTING = "executing"
    EVALUATING = "evaluating"
    SAFE_MODE = "safe_mode"


class Step(enum.Enum):
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

    def move(self, *steps: Step) -> None:
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
