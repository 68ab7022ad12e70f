"""Cost of analysing a command, compared with searching its text for the default patterns."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

from benchmarks.scale import Bench
from safetyd.core.action_types import Kinds
from safetyd.core.guards.gate import default_patterns
from safetyd.core.messages.proposal import Proposal
from safetyd.core.policy import Policy
from safetyd.core.shell import judge, programs
from safetyd.core.text.patterns import PatternSet

CORPUS: Final = Path(__file__).parents[1] / "tests" / "corpus"
SETS: Final = {
    "shipped": sorted(CORPUS.glob("*.jsonl")),
    "long": [CORPUS / "sessions" / "long.jsonl"],
}
ROUNDS: Final = 5
P99: Final = 0.99

Work = Callable[[Proposal], object]


def commands(bench: Bench) -> None:
    """Measure analysis, cold and cached, in microseconds and as a ratio."""
    table, policy = programs.shipped(), Policy()
    patterns = PatternSet((*default_patterns.BLOCKLIST, *default_patterns.SHELL))
    reader = policy.reader(Kinds(policy.types, policy.profile))
    works: dict[str, Work] = {
        "search": lambda proposal: patterns.find((proposal.text,)),
        "cold": lambda proposal: judge.read(proposal.text, table),
        "first": reader.reading,  # the first round's misses fill the cache
        "cached": reader.reading,
    }
    for name, files in SETS.items():
        lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
        given = [Proposal(type="run_shell", text=json.loads(line)["command"]) for line in lines]
        costs = _costs(list(works.values()), given)
        searched, cold, _, cached = costs
        for how, taken in (("cold", cold), ("cached", cached)):
            times = f"median {median(taken):.1f} us, p99 {_p99(taken):.0f} us"
            ratio = f"{median(taken) / median(searched):.2f} of searching for patterns"
            bench.report.tell(f"reading {len(given)} {name} commands, {how}", f"{times}, {ratio}")


def _costs(works: Sequence[Work], proposals: Sequence[Proposal]) -> list[list[float]]:
    """Return the best of several rounds for each work and proposal, in microseconds."""
    best = [[float("inf")] * len(proposals) for _ in works]
    for _ in range(ROUNDS):
        for number, proposal in enumerate(proposals):
            for work, least in zip(works, best, strict=True):
                began = perf_counter()
                work(proposal)
                least[number] = min(least[number], (perf_counter() - began) * 1e6)
    return best


def _p99(costs: Sequence[float]) -> float:
    return sorted(costs)[int(len(costs) * P99)]
