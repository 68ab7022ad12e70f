"""Run many random schedules of faults: python -m tests.cluster.chaos --seed 7 --rounds 50."""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from safetyd.core.events.cluster_events import WriterChanged, WriterReleased
from safetyd.core.events.guard_events import Resumed, Stopped
from tests.cluster.fleet import Fleet, running_fleet
from tests.cluster.invariants import check
from tests.cluster.schedules import carry_out, schedule
from tests.journeys.wall_clock import WallClock
from tests.postgres_server import PostgresServer

SKEW_S: Final = 30.0


@contextmanager
def skewed_fleet(directory: Path) -> Iterator[Fleet]:
    """Yield three daemons: the clock of one is half a minute ahead, that of another behind.

    All of them export to one PostgreSQL.
    """
    clocks: dict[str, Mapping[str, str]] = {}
    for name, skew_s in (("d2", SKEW_S), ("d3", -SKEW_S)):
        (folder := directory / f"clock-{name}").mkdir()
        clock = WallClock(folder)
        clock.step(skew_s)
        clocks[name] = clock.variables
    postgres = PostgresServer()
    try:
        with running_fleet(directory, 3, clocks, postgres) as fleet:
            yield fleet
    finally:
        postgres.remove()


def survive(fleet: Fleet, seed: int) -> None:
    """Carry out the schedule of a seed, repair everything, and check all invariants."""
    steps = schedule(seed)
    print(f"seed {seed}: {'; '.join(map(str, steps))}", flush=True)
    begun = time.monotonic()
    try:
        carry_out(fleet, steps)
        fleet.repair()
        check(fleet)
    except BaseException:
        print(f'repeat it with: make chaos ARGS="--seed {seed} --rounds 1"', flush=True)
        for event in fleet.record.events:
            if isinstance(event, WriterChanged | WriterReleased | Stopped | Resumed):
                print(event)
        raise
    print(f"seed {seed}: nothing was allowed for {fleet.silence_after(begun):.1f} s", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the seed of the first round")
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="safetyd-chaos-") as place,
        skewed_fleet(Path(place)) as fleet,
    ):
        for seed in range(options.seed, options.seed + options.rounds):
            survive(fleet, seed)
        fleet.hand_over()
        check(fleet)
    return 0


if __name__ == "__main__":
    sys.exit(main())
