"""Cost of work relative to other work in the same run.

Processor time is measured, which other load hardly affects. The speed of the machine cancels out
in the ratio.
"""

import time
from collections.abc import Callable

from safetyd.bus.codec import read_proposal
from tests.tracing import untraced

ROUNDS = 9

Work = Callable[[], object]


def seconds(work: Work, times: int = 1, rounds: int = ROUNDS) -> float:
    """Return the processor time of one call, in the best of some rounds."""
    with untraced():
        return min(_round(work, times) for _ in range(rounds))


def ratio(work: Work, other: Work, times: int = 1, rounds: int = ROUNDS) -> float:
    """Return the cost of `work` divided by the cost of `other`, measured in turns."""
    pairs = [
        (seconds(work, times, rounds=1), seconds(other, times, rounds=1)) for _ in range(rounds)
    ]
    return min(taken for taken, _ in pairs) / min(taken for _, taken in pairs)


def reading() -> object:
    """Decode a proposal, the first step of every decision and the unit of comparison."""
    return read_proposal("code", b'{"type":"run_shell","text":"make test"}', "")


def _round(work: Work, times: int) -> float:
    begun = time.thread_time()
    for _ in range(times):
        work()
    return (time.thread_time() - begun) / times
