"""How many recorded decisions `simulate` replays per second, including reading files.

Measured with proposals alone, and with proposals whose outcomes are reported. The baseline is what
the engine takes for the same without a record: a simulation cannot be faster. Processor time is
measured; a simulation uses one processor and waits for nothing.
"""

import math
from datetime import timedelta
from pathlib import Path
from time import process_time
from typing import Final

from benchmarks.proposals import SHORT, around_id
from benchmarks.rig import AGENT, LIMITS
from benchmarks.scale import Bench
from safetyd.bus.codec import read_proposal
from safetyd.clock import Clock
from safetyd.console.simulation.past_record import PastRecord, PastSimulation
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.decision_events import Proposed, Reported
from safetyd.core.events.event import Event
from safetyd.core.messages.telemetry import Outcome
from safetyd.core.policy import Policy
from safetyd.daemon.config import parse
from safetyd.journal.audit import Audit

APART_S: Final = 0.01  # between two proposals
ROUNDS: Final = 5
TARGET: Final = 10_000


def past_rules(bench: Bench) -> None:
    """Measure replayed decisions per second, and the ratio to the engine alone."""
    policy, count = parse(LIMITS, "LIMITS").policy(), bench.scale.replayed // 5
    for name, reported in (("", False), (", each reported", True)):
        alone_s = taken_s = math.inf
        for number in range(ROUNDS):  # in turns, so that other load affects both
            place = bench.place / f"past{number}{name[-1:]}"
            alone_s = min(alone_s, _recorded(policy, place, count, reported=reported))
            taken_s = min(taken_s, _simulated(policy, place, count))
        bench.report.at_least(f"decisions/s replayed{name}", count / taken_s, TARGET)
        told = f"{alone_s / taken_s:.2f} of the engine alone, {count / alone_s:,.0f}/s"
        bench.report.tell(f"  ratio{name}", told)


def _recorded(policy: Policy, place: Path, count: int, *, reported: bool) -> float:
    """Write a record; return the engine's share of the time."""
    engine, audit, took_s = Engine(policy), Audit(place, 2**30), 0.0
    audit.open()
    before, after = around_id(SHORT)
    now = Clock().now()
    for number in range(count):
        proposal, digest = read_proposal(AGENT, b"%bpast-%09d%b" % (before, number, after), "")
        later_s = number * APART_S
        when = {"at": now.at + timedelta(seconds=later_s), "t": now.t + later_s, "agent": AGENT}
        proposed = Proposed(**when, proposal=proposal, digest=digest)  # type: ignore[arg-type]
        outcome = Outcome(id=proposal.id, ok=True, cost_usd=0.01)
        report = Reported(**when, telemetry=outcome)  # type: ignore[arg-type]
        began = process_time()
        events: list[Event] = list(engine.decide(proposed)[1])
        events += engine.handle(report) if reported else []
        took_s += process_time() - began
        audit.append([encode(event) for event in events], engine.seq)
    audit.close()
    return took_s


def _simulated(policy: Policy, place: Path, count: int) -> float:
    began = process_time()
    run = PastSimulation(PastRecord(place), policy, lambda _share, _decisions: None).run(None)
    took_s = process_time() - began
    if run.report.decisions != count or not run.report.changes_nothing:
        raise AssertionError("the same rules changed something")
    return took_s
