"""Ten agents beside a flood of the same user, compared with the same flood of a bare server."""

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from time import monotonic, perf_counter, sleep
from typing import NamedTuple

from benchmarks.processes import PATIENCE_S, call, end, free_port, listening, spawn, tail, until
from benchmarks.rig import SAFETYD, Daemon, Place, running
from benchmarks.scale import Bench
from tests.hosts.hook_process import bash
from tests.hosts.test_many_sessions import ask
from tests.journeys.flood_round import MB, peak_bytes
from tests.journeys.sender_flood import KINDS

AGENTS = 10
PAUSE_S = 0.1
MAX_TIMES = 1.5
MAX_MB = 300
# The limits of senders stay as shipped.
SENDERS = "[rate]\nattempts_per_second = 0\n"


class Worked(NamedTuple):
    """The milliseconds of each call of the agents, and how many calls were refused."""

    waits: list[float]
    refused: int

    @property
    def p95(self) -> float:
        return quantiles(self.waits, n=20)[-1]


class Doors(NamedTuple):
    """Where a flood goes: a Unix socket and a URL."""

    socket: str
    url: str


def floods(bench: Bench) -> None:
    """Measure each kind of flood."""
    place = Place(bench.place, "floods")
    place.config.write_text(place.config.read_text().replace(SENDERS, ""))
    with running(place) as daemon, _echo(bench.place) as echo:
        endpoint = json.loads((place.data_dir / "endpoint.json").read_text())
        doors = Doors(endpoint["hook"], endpoint["web"])
        _work(doors.socket, PAUSE_S)  # the agents become known
        for kind in KINDS:
            beside = _flooded(bench, kind, echo, doors)
            flooded = _flooded(bench, kind, doors, doors)
            _tell(bench, kind, beside, flooded)
            named = json.loads(call(*SAFETYD, "status", "--json", *_where(daemon)))["over_limits"]
            bench.report.at_least(f"floods, {kind}: senders that status names", len(named), 1)
        mb = peak_bytes(endpoint["pid"]) / MB
    bench.report.at_most("floods: memory of the daemon, MB", mb, MAX_MB)


def _tell(bench: Bench, kind: str, beside: Worked, flooded: Worked) -> None:
    note = f"p95 {flooded.p95:.0f} ms, beside a bare server {beside.p95:.0f} ms"
    times = flooded.p95 / beside.p95
    bench.report.at_most(f"floods, {kind}: p95 / beside a bare server", times, MAX_TIMES, note)
    bench.report.at_most(f"floods, {kind}: refused calls", flooded.refused, 0)
    bench.report.raw[f"floods, {kind}"] = (beside, flooded)


def _flooded(bench: Bench, kind: str, flooded: Doors, doors: Doors) -> Worked:
    """Measure the agents while something floods these doors."""
    seconds = bench.scale.flood_s
    flooder = spawn(
        bench.place / "flood.log",
        *(sys.executable, "-m", "tests.journeys.sender_flood", kind, *flooded, str(seconds)),
    )
    try:
        return _work(doors.socket, seconds)
    finally:
        end(flooder)


def _work(socket: str, seconds: float) -> Worked:
    """Let all agents call at the rate of coding agents."""
    with ThreadPoolExecutor(AGENTS) as threads:
        done = list(threads.map(lambda number: _calls(socket, number, seconds), range(AGENTS)))
    return Worked([wait for one in done for wait in one.waits], sum(one.refused for one in done))


def _calls(socket: str, number: int, seconds: float) -> Worked:
    waits, refused, until_t = list[float](), 0, monotonic() + seconds
    while not waits or monotonic() < until_t:
        nonce = f"{number:08x}{len(waits):08x}"
        call_id = f"{number}-{perf_counter()}"
        begun = perf_counter()
        answer = ask(socket, bash("ls", call_id), nonce, agent=f"bench-{number}")
        waits.append((perf_counter() - begun) * 1000)
        refused += answer.refuses
        sleep(PAUSE_S)
    return Worked(waits, refused)


@contextmanager
def _echo(place: Path) -> Iterator[Doors]:
    port, socket, log = free_port(), place / "echo.sock", place / "http-echo.log"
    server = spawn(log, sys.executable, "-m", "benchmarks.http_echo", str(socket), str(port))
    try:
        until(lambda: listening(port), PATIENCE_S, lambda: f"echo: {tail(log)}")
        yield Doors(str(socket), f"http://127.0.0.1:{port}")
    finally:
        end(server)


def _where(daemon: Daemon) -> tuple[str, str]:
    return "--data-dir", str(daemon.place.data_dir)
