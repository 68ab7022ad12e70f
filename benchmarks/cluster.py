"""Decisions on three replicas against one, and how long a takeover takes."""

import statistics
import tempfile
import time
from pathlib import Path

import anyio

from benchmarks.scale import Bench
from safetyd.client import Safety
from tests.cluster.fleet import Fleet, running_fleet
from tests.conftest import UNLIMITED, RunningDaemon
from tests.journeys.test_second_daemon import Shared
from tests.nats_cluster import NatsCluster

IN_FLIGHT = 64


def cluster(bench: Bench) -> None:
    """Compare one replica with three, and take over many times."""
    one, three = _on_one(bench), _on_three(bench)
    bench.report.tell("one replica", f"{one[0]:,.0f} decisions/s, p50 {one[1] * 1000:.1f} ms alone")
    bench.report.tell(
        "three replicas", f"{three[0]:,.0f} decisions/s, p50 {three[1] * 1000:.1f} ms alone"
    )
    bench.report.tell("three / one, decisions per second", f"{three[0] / one[0]:.2f}")
    bench.report.tell("three / one, p50 of one in flight", f"{three[1] / one[1]:.2f}")
    killed, ended = _takeovers(bench.scale.takeovers)
    for what, times in (("killed", killed), ("SIGTERM", ended)):
        spread = f"{min(times):.2f} to {max(times):.2f} s, median {statistics.median(times):.2f}"
        bench.report.tell(f"takeover, {what}, {len(times)} rounds", spread)
        bench.report.raw[f"takeover, {what}"] = times


def _on_one(bench: Bench) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(dir=bench.place) as place:
        shared = Shared(Path(place))
        try:
            return _decided(Path(place), shared.bus.url, shared.daemon, shared.agent, bench)
        finally:
            shared.bus.stop()


def _on_three(bench: Bench) -> tuple[float, float]:
    """Measure without the links that tests can cut, which would take time."""
    with tempfile.TemporaryDirectory(dir=bench.place) as place:
        nodes = NatsCluster(Path(place), linked=False)
        try:
            nodes.start()
            url = ",".join(node.url for node in nodes.nodes.values())
            return _decided(Path(place), url, nodes.keys.daemon, nodes.agent, bench, replicas=3)
        finally:
            nodes.close()


def _decided(
    place: Path, url: str, key: Path, agent: Path, bench: Bench, replicas: int = 1
) -> tuple[float, float]:
    bus = f'[bus]\nurl = "{url}"\nkey_file = "{key}"\n'
    (place / "d").mkdir()
    daemon = RunningDaemon(place / "d", f"{UNLIMITED}{bus}[journal]\nreplicas = {replicas}\n")
    try:
        return anyio.run(_measured, url, agent, bench.scale.round_s)
    finally:
        daemon.stop()


async def _measured(url: str, seed: Path, round_s: float) -> tuple[float, float]:
    """Return decisions per second with many in flight, and the median time of one alone."""
    counted = 0
    alone: list[float] = []

    async with Safety("code", url=url, key_file=seed, deadline_s=30) as safety:

        async def work() -> None:
            nonlocal counted
            while True:
                assert (await safety.propose("read_file")).allowed
                counted += 1

        await safety.propose("read_file")
        until = time.monotonic() + round_s
        while time.monotonic() < until:
            begun = time.perf_counter()
            await safety.propose("read_file")
            alone.append(time.perf_counter() - begun)
        with anyio.move_on_after(round_s):
            async with anyio.create_task_group() as tasks:
                for _ in range(IN_FLIGHT):
                    tasks.start_soon(work)
    return counted / round_s, statistics.median(alone)


def _takeovers(rounds: int) -> tuple[list[float], list[float]]:
    killed: list[float] = []
    ended: list[float] = []
    with tempfile.TemporaryDirectory() as place, running_fleet(Path(place)) as fleet:
        for _ in range(rounds):
            killed.append(_takeover(fleet, kill=True))
            ended.append(_takeover(fleet, kill=False))
    return killed, ended


def _takeover(fleet: Fleet, *, kill: bool) -> float:
    writer, begun = fleet.writer, time.monotonic()
    if kill:
        writer.kill()
    else:
        writer.stop()
    fleet.until_allowed()
    took = fleet.silence_after(begun)
    fleet.repair()
    return took
