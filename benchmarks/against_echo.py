"""safetyd compared with a bare echo, in turns: many proposals in flight, and one."""

import contextlib
import statistics
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.load import Result, Spec
from benchmarks.processes import Unmeasured
from benchmarks.publish import lone_publish_ms
from benchmarks.rig import Daemon, Place, echoing, load, running, serving
from benchmarks.scale import Bench

LEVELS = {1: 3, 64: 5, 256: 3}  # in flight: rounds
ALONE_ROUNDS = 5
WARM_UP_S = 0.5


class Pair(NamedTuple):
    echo: Result
    safetyd: Result

    @property
    def ratio(self) -> float:
        return self.safetyd.rate / self.echo.rate


class Sides:
    """The two responders, each behind its own server with the same configuration."""

    def __init__(self, echo_url: str, echo: Place, daemon: Daemon) -> None:
        self.echo_url = echo_url
        self._echo = echo
        self._daemon = daemon

    def turn(self, in_flight: int, seconds: float) -> Pair:
        echo = Spec(
            url=self.echo_url, key_file=self._echo.agent_key, in_flight=in_flight, seconds=seconds
        )
        safetyd = Spec(
            url=self._daemon.url,
            key_file=self._daemon.place.agent_key,
            in_flight=in_flight,
            seconds=seconds,
        )
        return Pair(load(echo), allowed(load(safetyd)))

    def publish_ms(self, count: int) -> float:
        return statistics.median(lone_publish_ms(self.echo_url, self._echo.daemon_key, count))


@contextlib.contextmanager
def _sides(bench: Bench, name: str) -> Iterator[Sides]:
    echo = Place(bench.place, f"{name}-echo")
    with echoing(echo) as echo_url, running(Place(bench.place, name)) as daemon:
        sides = Sides(echo_url, echo, daemon)
        sides.turn(64, WARM_UP_S)
        yield sides


def allowed(result: Result) -> Result:
    """Return the result if its proposals were allowed; otherwise raise."""
    if result.allowed_share < 0.99:
        raise Unmeasured(
            f"only {result.allowed_share:.1%} were allowed; one answer: {result.other}"
        )
    return result


def ratio(bench: Bench) -> None:
    """Measure throughput and latency with 1, 64 and 256 in flight, each against the echo."""
    ceiling = _ceiling(bench)
    with _sides(bench, "ratio") as sides:
        pairs = _levels(bench, sides)
    for in_flight, turns in pairs.items():
        _tell(bench, in_flight, turns)
    _judge(bench, pairs[64], ceiling)


def _ceiling(bench: Bench) -> Result:
    with serving(bench.place / "ceiling.log") as url:
        return load(Spec(url=url, to_self=True, in_flight=64, seconds=bench.scale.round_s))


def _levels(bench: Bench, sides: Sides) -> dict[int, list[Pair]]:
    seconds = bench.scale.round_s
    return {
        in_flight: [sides.turn(in_flight, seconds) for _ in range(rounds)]
        for in_flight, rounds in LEVELS.items()
    }


def _tell(bench: Bench, in_flight: int, turns: list[Pair]) -> None:
    echo = _middle([turn.echo for turn in turns])
    safetyd = _middle([turn.safetyd for turn in turns])
    share = statistics.median(turn.ratio for turn in turns)
    bench.report.tell(f"echo, {in_flight} in flight", line(echo))
    bench.report.tell(
        f"safetyd, {in_flight} in flight", f"{line(safetyd)}, {share:.2f} of the echo"
    )
    bench.report.raw[f"{in_flight} in flight"] = {
        "echo": [figures(turn.echo) for turn in turns],
        "safetyd": [figures(turn.safetyd) for turn in turns],
        "ratio": share,
    }


def _judge(bench: Bench, turns: list[Pair], ceiling: Result) -> None:
    ratios = sorted(turn.ratio for turn in turns)
    spread = f"of {len(ratios)} rounds, {ratios[0]:.2f} to {ratios[-1]:.2f}; aim 0.5"
    bench.report.at_least("safetyd / echo, 64 in flight", statistics.median(ratios), 0.30, spread)
    share = min(turn.safetyd.allowed_share for turn in turns)
    bench.report.at_least("share of allowed", share, 0.99)
    above = ceiling.rate / max(turn.echo.rate for turn in turns)
    bench.report.at_least("generator alone / echo", above, 2.0, f"{ceiling.rate:,.0f} a second")


def alone(bench: Bench) -> None:
    """Measure one in flight against the minimum cost: an echo plus a durable publish."""
    with _sides(bench, "alone") as sides:
        turns = _alone_turns(bench, sides)
    echo = statistics.median(pair.echo.p50_ms for pair, _ in turns)
    safetyd = statistics.median(pair.safetyd.p50_ms for pair, _ in turns)
    publish = statistics.median(published for _, published in turns)
    parts = f"{safetyd:.2f} ms / ({echo:.2f} echo + {publish:.2f} publish)"
    bench.report.at_most("alone, p50 / (echo + publish)", safetyd / (echo + publish), 1.4, parts)
    bench.report.raw["alone"] = {"echo_ms": echo, "publish_ms": publish, "safetyd_ms": safetyd}


def _alone_turns(bench: Bench, sides: Sides) -> list[tuple[Pair, float]]:
    return [
        (sides.turn(1, bench.scale.round_s / 2), sides.publish_ms(bench.scale.publishes))
        for _ in range(ALONE_ROUNDS)
    ]


def _middle(results: list[Result]) -> Result:
    return sorted(results, key=lambda result: result.rate)[len(results) // 2]


def line(result: Result) -> str:
    return f"{result.rate:,.0f}/s, p50 {result.p50_ms:.2f} ms, p99 {result.p99_ms:.2f} ms"


def figures(result: Result) -> dict[str, float]:
    return {
        "per_second": result.rate,
        "p50_ms": result.p50_ms,
        "p99_ms": result.p99_ms,
        "allowed_share": result.allowed_share,
    }
