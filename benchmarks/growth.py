"""Costs that must not grow with patterns, agents or hostile text."""

import contextlib
import json
import statistics
from collections.abc import Callable
from typing import NamedTuple

from benchmarks.against_echo import allowed, figures
from benchmarks.load import Result, Spec
from benchmarks.processes import Unmeasured
from benchmarks.proposals import HOSTILE, LONG, SHORT
from benchmarks.proposals import patterns as blocklist
from benchmarks.rig import Daemon, Place, echoing, load, running
from benchmarks.scale import Bench

PATTERNS = (10, 100, 1000)
ROUNDS = 5
MANY = 256  # in flight: disk flushes weigh little then, so growth shows


class Cost(NamedTuple):
    """Cost of a decision with many in flight: wall time, and the daemon's processor time."""

    time_us: float
    cpu_us: float


class Memory(NamedTuple):
    """Resident bytes of the daemon before and after the agents were seen."""

    new: int
    after: int


Turn = dict[int, Cost]  # by the number of patterns or agents


def patterns(bench: Bench) -> None:
    """Measure the cost per decision with more and more blocklist patterns, in turns."""
    with contextlib.ExitStack() as stack:
        daemons = {
            count: stack.enter_context(running(_with_patterns(bench, count))) for count in PATTERNS
        }
        turns = _turns(daemons, lambda count: _keyed(bench, daemons[count]))
    _judge(bench, "patterns", turns)


def _with_patterns(bench: Bench, count: int) -> Place:
    gate = f"[gate]\nblocklist_patterns = {json.dumps(blocklist(count))}\n"
    return Place(bench.place, f"patterns-{count}", gate)


def _keyed(bench: Bench, daemon: Daemon) -> Spec:
    key = daemon.place.agent_key
    return Spec(url=daemon.url, key_file=key, in_flight=MANY, seconds=bench.scale.round_s)


def agents(bench: Bench) -> None:
    """Measure cost per decision and memory with more and more agents, in turns."""
    with contextlib.ExitStack() as stack:
        daemons = {
            count: stack.enter_context(running(Place(bench.place, f"agents-{count}")))
            for count in bench.scale.agents
        }
        memory = {count: _see(bench, daemon, count) for count, daemon in daemons.items()}
        turns = _turns(daemons, lambda count: _open(bench, daemons[count].url, count))
    _judge(bench, "agents", turns)
    _judge_memory(bench, memory)
    _tell_bus(bench)


def _see(bench: Bench, daemon: Daemon, count: int) -> Memory:
    """Make as many decisions as the other daemons did, for `count` agents."""
    new = daemon.resident_bytes()
    decisions = bench.scale.agent_decisions
    spec = Spec(url=daemon.url, agent="open", agents=count, in_flight=MANY, count=decisions)
    allowed(load(spec))
    return Memory(new, daemon.resident_bytes())


def _open(bench: Bench, url: str, count: int) -> Spec:
    return Spec(url=url, agent="open", agents=count, in_flight=MANY, seconds=bench.scale.round_s)


def _judge_memory(bench: Bench, memory: dict[int, Memory]) -> None:
    """Return the memory per agent, counting everything allocated meanwhile.

    This overstates it: stored answers and checkpoint buffers are included. The
    difference to as many decisions by few agents would be fairer, but is smaller than its noise.
    """
    few, many = min(memory), max(memory)
    each = (memory[many].after - memory[many].new) / many
    note = (
        f"at most: {memory[many].new >> 20} MiB new, {memory[many].after >> 20} MiB after; "
        f"{memory[few].after >> 20} MiB with {few}"
    )
    bench.report.at_most("resident bytes per agent", each, 4096, note)
    bench.report.raw["resident_bytes"] = {str(n): seen._asdict() for n, seen in memory.items()}


def _tell_bus(bench: Bench) -> None:
    """Measure what many names cost the server and an echo alone."""
    few, many = min(bench.scale.agents), max(bench.scale.agents)
    with echoing(Place(bench.place, "agents-echo")) as url:
        turns = [[load(_open(bench, url, n)).rate for n in (few, many)] for _ in range(ROUNDS)]
    middle = statistics.median(with_few / with_many for with_few, with_many in turns)
    bench.report.tell(f"(echo alone, {many:,} / {few} names)", f"{middle:.2f}")


def _turns(daemons: dict[int, Daemon], spec: Callable[[int], Spec]) -> list[Turn]:
    return [
        {count: _cost(daemon, spec(count)) for count, daemon in daemons.items()}
        for _ in range(ROUNDS)
    ]


def _cost(daemon: Daemon, spec: Spec) -> Cost:
    before = daemon.cpu_s()
    result = allowed(load(spec))
    return Cost(1e6 / result.rate, (daemon.cpu_s() - before) * 1e6 / result.answered)


def _judge(bench: Bench, what: str, turns: list[Turn]) -> None:
    for count in turns[0]:
        time_us = statistics.median(turn[count].time_us for turn in turns)
        cpu_us = statistics.median(turn[count].cpu_us for turn in turns)
        bench.report.tell(f"{count:,} {what}", f"{time_us:.1f} us a decision, {cpu_us:.1f} us cpu")
    few, many = min(turns[0]), max(turns[0])
    claim = f"with {many:,} / {few} {what}"
    _judge_growth(bench, f"time {claim}", [t[many].time_us / t[few].time_us for t in turns])
    _judge_growth(bench, f"cpu {claim}", [t[many].cpu_us / t[few].cpu_us for t in turns])
    bench.report.raw[what] = [
        {str(count): cost._asdict() for count, cost in turn.items()} for turn in turns
    ]


def _judge_growth(bench: Bench, claim: str, growths: list[float]) -> None:
    spread = f"of {len(growths)} rounds, {min(growths):.2f} to {max(growths):.2f}"
    bench.report.at_most(claim, statistics.median(growths), 1.3, spread)


def text(bench: Bench) -> None:
    """Measure latency of one in flight with short, long and hostile text."""
    with running(Place(bench.place, "text")) as daemon:
        _ask(bench, daemon, SHORT)
        short, long = (allowed(_ask(bench, daemon, said)) for said in (SHORT, LONG))
        hostile = {name: _decided(_ask(bench, daemon, said)) for name, said in HOSTILE.items()}
    _judge_text(bench, {"100 B": short, "8 KiB": long}, hostile)


def _ask(bench: Bench, daemon: Daemon, said: str) -> Result:
    key = daemon.place.agent_key
    return load(Spec(url=daemon.url, key_file=key, text=said, count=bench.scale.texts))


def _decided(result: Result) -> Result:
    if '"cause":"malformed"' in result.other:
        raise Unmeasured(f"a hostile text was not judged: {result.other}")
    return result


def _judge_text(bench: Bench, plain: dict[str, Result], hostile: dict[str, Result]) -> None:
    for name, result in plain.items():
        bench.report.tell(f"text of {name}, alone", _latency(result))
    worst = max(hostile, key=lambda name: hostile[name].p50_ms)
    above = hostile[worst].p50_ms - plain["100 B"].p50_ms
    note = f"ms p50, {above:.2f} above 100 B; the worst of {len(hostile)}: {worst}"
    bench.report.at_most("hostile text of 8 KiB, alone", hostile[worst].p50_ms, 2.0, note)
    bench.report.raw["text"] = {
        name: figures(result) for name, result in {**plain, **hostile}.items()
    }


def _latency(result: Result) -> str:
    return f"p50 {result.p50_ms:.2f} ms, p99 {result.p99_ms:.2f} ms"
