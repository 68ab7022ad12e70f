"""What reading a command costs, beside looking for the patterns of before."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

from benchmarks.scale import Bench
from safetyd.core.guards.gate import default_patterns
from safetyd.core.shell import judge, programs
from safetyd.core.text.patterns import PatternSet

CORPUS: Final = Path(__file__).parents[1] / "tests" / "corpus"
ROUNDS: Final = 5
P99: Final = 0.99


def commands(bench: Bench) -> None:
    """Tell how dear reading is, as a ratio to the patterns, and in microseconds."""
    table = programs.shipped()
    patterns = PatternSet((*default_patterns.BLOCKLIST, *default_patterns.SHELL))
    for name, files in (("shipped", sorted(CORPUS.glob("*.jsonl"))), ("long", [_LONG])):
        texts = [json.loads(line)["command"] for file in files for line in _lines(file)]
        read = _costs(lambda text: judge.read(text, table), texts)
        searched = _costs(lambda text: patterns.find((text,)), texts)
        told = f"median {median(read):.0f} us, p99 {_p99(read):.0f} us, {len(texts)} commands"
        bench.report.tell(f"reading {name} commands", told)
        ratio = median(read) / median(searched)
        bench.report.tell(f"reading {name} commands, to patterns", f"{ratio:.1f}")


_LONG: Final = CORPUS / "sessions" / "long.jsonl"


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


def _costs(judged: Callable[[str], object], texts: Sequence[str]) -> list[float]:
    """Return the least of several rounds for each text, in microseconds."""
    best = [float("inf")] * len(texts)
    for _ in range(ROUNDS):
        for number, text in enumerate(texts):
            began = perf_counter()
            judged(text)
            best[number] = min(best[number], (perf_counter() - began) * 1e6)
    return best


def _p99(costs: Sequence[float]) -> float:
    return sorted(costs)[int(len(costs) * P99)]
