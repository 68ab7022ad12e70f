"""Measure safetyd against a bare echo and against its targets: python -m benchmarks --help."""

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final

from benchmarks.against_echo import alone, ratio
from benchmarks.cluster import cluster
from benchmarks.commands_read import commands
from benchmarks.control_room import control_room
from benchmarks.growth import agents, patterns, text
from benchmarks.guards import guards
from benchmarks.hook_calls import hook
from benchmarks.past_rules import past_rules
from benchmarks.postgres_beside import beside_loading
from benchmarks.postgres_load import postgres
from benchmarks.processes import Unmeasured
from benchmarks.report import Report
from benchmarks.scale import FULL, QUICK, Bench
from benchmarks.sender_floods import floods
from benchmarks.start import start
from benchmarks.version_history import history

RESULTS: Final = Path(__file__).parent / "results"
MEASURES: Final[dict[str, Callable[[Bench], None]]] = {
    "ratio": ratio,
    "alone": alone,
    "guards": guards,
    "text": text,
    "patterns": patterns,
    "commands": commands,
    "past_rules": past_rules,
    "agents": agents,
    "start": start,
    "hook": hook,
    "floods": floods,
    "control_room": control_room,
    "postgres": postgres,
    "beside_loading": beside_loading,
    "history": history,
    "cluster": cluster,
}


def main() -> int:
    """Return 0; 1 if a target was missed and that matters; 2 if something could not be measured."""
    options = _options()
    scale = QUICK if options.quick else FULL
    report = Report(quick=options.quick)
    _end_on_time(scale.limit_s)
    RESULTS.mkdir(exist_ok=True)
    # Not in /tmp, which may be in memory, where a flush costs nothing.
    with tempfile.TemporaryDirectory(dir=RESULTS, ignore_cleanup_errors=True) as place:
        _measure(Bench(scale, Path(place), report), options.only)
    report.write(RESULTS / "bench.json")
    _print(report)
    return 2 if report.unmeasured else int(options.strict and report.missed)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller numbers, under two minutes")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a target is missed")
    parser.add_argument(
        "--only", type=_selection, default=list(MEASURES), metavar=",".join(MEASURES)
    )
    return parser.parse_args()


def _selection(names: str) -> list[str]:
    chosen = names.split(",")
    unknown = [name for name in chosen if name not in MEASURES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no measure is called {', '.join(unknown)}")
    return chosen


def _end_on_time(limit_s: int) -> None:
    """Turn SIGTERM and the time limit into exceptions, so that everything is cleaned up."""

    def give_up(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(f"ended by {signal.Signals(number).name}")

    signal.signal(signal.SIGTERM, give_up)
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(limit_s)


def _measure(bench: Bench, chosen: list[str]) -> None:
    for name in chosen:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        try:
            MEASURES[name](bench)
        except Unmeasured as unmeasured:
            bench.report.unmeasured[name] = str(unmeasured)


def _print(report: Report) -> None:
    print(report.table())
    print(f"\nLoad before the run: {report.load_before:.1f} on {os.cpu_count()} processors.")
    if report.quick:
        print("A quick run: fewer agents and decisions than the targets speak of.")
    for name, why in report.unmeasured.items():
        print(f"{name} could not be measured: {why}")
    print(f"All numbers: {RESULTS / 'bench.json'}")


if __name__ == "__main__":
    sys.exit(main())
