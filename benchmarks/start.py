"""Time until safetyd answers after a start, by the number of past decisions."""

import re
from time import perf_counter

import msgspec

from benchmarks.against_echo import allowed
from benchmarks.load import Spec
from benchmarks.processes import Unmeasured
from benchmarks.rig import Daemon, Place, first_answer, load
from benchmarks.scale import Bench


class Started(msgspec.Struct, frozen=True):
    """Seconds from the command to `endpoint.json`, and to the first allow."""

    ready_s: float
    allowed_s: float
    seq: int  # of that allow: earlier ids are remembered

    def __str__(self) -> str:
        return f"{self.ready_s:.2f} s ready, {self.allowed_s:.2f} s first allow"


def start(bench: Bench) -> None:
    """Measure a new start, one after a power cut, and ones after more and more decisions."""
    daemon = Daemon(Place(bench.place, "start"))
    try:
        bench.report.tell("start, new", str(_start(bench, daemon, "new")))
        _replay(bench, daemon)
        for decisions in bench.scale.fills:
            last = _after(bench, daemon, decisions)
        _judge(bench, last)
        daemon.cut_off()
        bench.report.tell("the same after a power cut", str(_start(bench, daemon, "power cut")))
    finally:
        daemon.stop()


def _start(bench: Bench, daemon: Daemon, name: str) -> Started:
    began = perf_counter()
    ready_s = daemon.start()
    answer = allowed(first_answer(daemon.url))
    numbered = re.search(r'"seq":(\d+)', answer.first)
    started = Started(ready_s, perf_counter() - began, int(numbered[1]) if numbered else 0)
    bench.report.raw[f"start, {name}"] = started
    return started


def _replay(bench: Bench, daemon: Daemon) -> None:
    _fill(bench, daemon, bench.scale.replayed)
    daemon.cut_off()
    for checkpoint in (daemon.place.data_dir / "checkpoints").glob("*"):
        checkpoint.unlink()
    started = _start(bench, daemon, "replay")
    _remembered(started, bench.scale.replayed)
    bench.report.tell(f"start, {bench.scale.replayed:,} replayed", str(started))


def _after(bench: Bench, daemon: Daemon, decisions: int) -> Started:
    done = _fill(bench, daemon, decisions)
    daemon.stop()
    started = _start(bench, daemon, f"after {done}")
    _remembered(started, done)
    bench.report.tell(f"start, after {done:,}", str(started))
    return started


def _fill(bench: Bench, daemon: Daemon, decisions: int) -> int:
    """Make decisions until there are `decisions` in all; return the number before."""
    before = _seq(daemon)
    spec = Spec(
        url=daemon.url,
        key_file=daemon.place.agent_key,
        in_flight=256,
        count=max(decisions - before, 1),
        seconds=bench.scale.fill_s,
    )
    return before + allowed(load(spec)).answered


def _seq(daemon: Daemon) -> int:
    numbered = re.search(r'"seq":(\d+)', first_answer(daemon.url).first)
    return int(numbered[1]) if numbered else 0


def _remembered(started: Started, decisions: int) -> None:
    if started.seq <= decisions:
        raise Unmeasured(f"after {decisions} decisions the next is number {started.seq}")


def _judge(bench: Bench, started: Started) -> None:
    most = bench.scale.fills[-1]
    short = "" if started.seq > most else f"only {started.seq:,} were made in time"
    bench.report.at_most(f"start after {most:,}, seconds", started.allowed_s, 10.0, short)
