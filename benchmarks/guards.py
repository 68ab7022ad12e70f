"""Cost of each guard: the same proposal through the whole chain, and without each guard.

Everything runs in this process, without a bus. A guard adds more to a decision than its own check
and observe take alone: it causes work elsewhere, and code runs slower with colder caches. So the
sum of what guards add exceeds the whole chain, and the sum of what they take alone is less.
"""

import contextlib
import gc
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from time import perf_counter
from typing import Final, TypeVar

from benchmarks.processes import Unmeasured
from benchmarks.proposals import SHORT, around_id
from benchmarks.rig import AGENT, LIMITS
from benchmarks.scale import Bench
from safetyd.bus.codec import read_proposal
from safetyd.clock import Clock
from safetyd.core.action_types import Kind
from safetyd.core.actor import Actor
from safetyd.core.engine.engine import Engine, _listeners
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.events.event import Event, Moment
from safetyd.core.messages.verdict import Severity
from safetyd.core.open_actions import GIVEN_UP
from safetyd.core.policy import Policy
from safetyd.daemon.config import parse

# No outcomes are reported here, so actions become overdue: once in each batch.
BATCH: Final = GIVEN_UP
NOBODY: Final = ("nobody",)  # leaves nothing out: the whole chain again, to show the noise

Returned = TypeVar("Returned")
Names = tuple[str, ...]
Costs = dict[str, float]  # microseconds, by the name of a guard or another actor


class Ablated(Engine):
    """An engine that can leave out some guards and other actors."""

    @property
    def everybody(self) -> tuple[Actor, ...]:
        """Return the guards, then the other actors."""
        return self._everybody

    def leave_out(self, names: Collection[str]) -> None:
        """Leave these out until the next call; their state does not change."""
        self._guards = tuple(one for one in self.guards if one.name not in names)
        self._actors = tuple(one for one in self._everybody if one.name not in names)
        self._listeners = _listeners(self._actors)

    def kind_of(self, proposed: Proposed) -> Kind:
        return self.reader.kinds.of(proposed.proposal)

    def _build(self, policy: Policy) -> None:
        super()._build(policy)
        self._everybody = self._actors


class Proposals:
    """Return proposals of the load generator, decoded as the daemon does, each with its own id."""

    def __init__(self) -> None:
        self._clock = Clock()
        self._before, self._after = around_id(SHORT)
        self._made = 0

    def batch(self) -> list[Proposed]:
        moment = self._clock.now()
        return [self._next(moment) for _ in range(BATCH)]

    def _next(self, moment: Moment) -> Proposed:
        self._made += 1
        data = b"%bguards-%09d%b" % (self._before, self._made, self._after)
        proposal, digest = read_proposal(AGENT, data, "")
        return Proposed(at=moment.at, t=moment.t, agent=AGENT, proposal=proposal, digest=digest)


def guards(bench: Bench) -> None:
    """Measure every guard and actor: what it adds to a decision, and what it takes alone."""
    policy, rounds = parse(LIMITS, "LIMITS").policy(), bench.scale.guard_rounds
    names = tuple(actor.name for actor in Ablated(policy).everybody)
    with _undisturbed():
        took = _in_turns(policy, ((), names, *((name,) for name in names), NOBODY), rounds)
        check, observe = _alone(policy, names, rounds)
    whole, bare = took[()], took[names]
    adds = {name: whole - took[name,] for name in names}
    _tell(bench, adds, check, observe)
    noise = whole - took[NOBODY]
    bench.report.tell("  nobody (noise)", _cells([noise]))
    bench.report.tell("  engine, all of them", _cells([whole]))
    bench.report.tell("  engine, none of them", _cells([bare]))
    bench.report.raw["guards"] = {
        "whole_us": whole,
        "bare_us": bare,
        "noise_us": noise,
        "adds_us": adds,
        "check_us": check,
        "observe_us": observe,
    }


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _in_turns(policy: Policy, left_out: Sequence[Names], rounds: int) -> dict[Names, float]:
    """Return the cost of a decision by what is left out: the best of several rounds."""
    # One engine for all: its memory layout alone can cost more than a small guard.
    engine, proposals = Ablated(policy), Proposals()
    best: dict[Names, float] = {}
    for number in range(rounds + 1):
        for names in left_out:
            engine.leave_out(names)
            _decide(engine, proposals.batch())  # warm the caches for this variant
            took = _decide(engine, proposals.batch())
            if number:
                best[names] = min(best.get(names, math.inf), took)
    return best


def _alone(policy: Policy, names: Names, rounds: int) -> tuple[Costs, Costs]:
    """Return the cost of repeated check and observe calls: the best of several rounds."""
    check: Costs = {}
    observe: Costs = {}
    proposals = Proposals()
    for _ in range(rounds):
        engine = Ablated(policy)  # a new engine without overdue actions
        _decide(engine, proposals.batch())
        batch = proposals.batch()
        _check(engine, batch, check)
        engine.leave_out(names)
        _observe(engine, [engine.decide(proposed)[1][0] for proposed in batch], observe)
    return check, observe


def _check(engine: Ablated, batch: Sequence[Proposed], best: Costs) -> None:
    kinds = [engine.kind_of(proposed) for proposed in batch]
    for guard in engine.guards:
        took, _ = _timed(guard.check, batch, kinds)
        best[guard.name] = min(best.get(guard.name, math.inf), took)


def _observe(engine: Ablated, decided: Sequence[Event], best: Costs) -> None:
    for actor in engine.everybody:
        if (act := actor.hears.get(Decided)) is not None:
            took, _ = _timed(act, decided)
            best[actor.name] = min(best.get(actor.name, math.inf), took)


def _decide(engine: Engine, batch: Sequence[Proposed]) -> float:
    took, answers = _timed(engine.decide, batch)
    for decision, _ in answers:
        if decision.decision is not Severity.ALLOW:
            raise Unmeasured(f"a proposal was not allowed: {decision.reason}")
    return took


def _timed(act: Callable[..., Returned], *given: Sequence[object]) -> tuple[float, list[Returned]]:
    """Return the microseconds of one call, and the results of all calls."""
    began = perf_counter()
    returned = list(map(act, *given))
    return (perf_counter() - began) * 1e6 / len(returned), returned


def _tell(bench: Bench, *columns: Costs) -> None:
    bench.report.tell("us a decision", "    adds    check  observe")
    for name in columns[0]:
        bench.report.tell(f"  {name}", _cells(column.get(name) for column in columns))
    bench.report.tell("  sum", _cells(sum(column.values()) for column in columns))


def _cells(costs: Iterable[float | None]) -> str:
    """Format the rows; an actor without check or observe has no number."""
    return " ".join("       -" if us is None else f"{us:8.2f}" for us in costs)
